use super::*;
use crate::{
    Strategy,
    results::{BreakerState, Counters, Figures, Series, Span, Verdict},
};

const HOSTILE: &str =
    "<script>alert(1)</script>\"'&</style><img src=x onerror=y>\u{1}\u{202e}\u{2066}";

const FROM: &str = "the defaults";

fn series() -> Series {
    Series {
        bucket_s: 0.5,
        calls_per_second: vec![10.0, 200.0, 30.0, 0.0],
        goodput_per_second: vec![10.0, 0.0, 0.0, 5.0],
        wasted_per_second: vec![0.0, 200.0, 30.0, 0.0],
        in_flight: vec![0.0; 4],
        late: vec![0.0; 4],
        open_share: vec![0.0, 0.25, 1.0, 0.0],
        state: Vec::new(),
    }
}

fn result(strategy: Strategy, scale: f64) -> StrategyResult {
    let counters = Counters {
        calls: 12_345.25 * scale,
        calls_wasted: 1_017.0 * scale,
        calls_while_down: 33.5 * scale,
        refused: 7.0 * scale,
        questions: 400.0 * scale,
        reports: 11.0 * scale,
        ..Counters::default()
    };
    let figures = Figures {
        amplification: Some(1.0625 * scale),
        peak_per_second: 214.0 * scale,
        peak_100ms_per_second: 231.0 * scale,
        recovers_within_s: (scale > 1.5).then_some(7.25),
        opens_within_s: Some(1.0234),
        goodput: Some(0.983),
        failed_after: None,
        half_served_s: Some(3.5),
        nearly_all_served_s: Some(6.25 * scale),
    };
    StrategyResult {
        strategy,
        label: format!("{HOSTILE} {}", strategy.label()),
        counters,
        figures,
        series: series(),
        runs: Vec::new(),
    }
}

fn results() -> Results {
    let mut holdoff = result(Strategy::Holdoff, 2.0);
    holdoff.series.state = vec![
        BreakerState::Closed,
        BreakerState::Open,
        BreakerState::Open,
        BreakerState::Recovering,
    ];
    Results {
        scenario: HOSTILE.into(),
        description: HOSTILE.into(),
        clients: 1_000,
        capacity_per_second: 200.0,
        duration_s: 2.0,
        disturbed: true,
        seeds: vec![41, 42],
        spans: vec![Span {
            label: HOSTILE.into(),
            from_s: 0.5,
            to_s: 1.0,
        }],
        strategies: vec![result(Strategy::FullJitter, 1.0), holdoff],
        verdicts: vec![Verdict {
            strategy: Strategy::Holdoff,
            assertion: HOSTILE.into(),
            wanted: HOSTILE.into(),
            found: HOSTILE.into(),
            holds: false,
        }],
    }
}

/// Every `data-value` of the row whose heading ends so, in order.
fn values(page: &str, heading: &str) -> Vec<f64> {
    let row = page
        .split("<tr><th scope=\"row\">")
        .find(|row| {
            row.split("</th>").next().unwrap().ends_with(heading) && row.contains("data-value")
        })
        .unwrap();
    let row = row.split("</tr>").next().unwrap();
    let cells = row.split("data-value=\"").skip(1);
    cells
        .map(|cell| cell.split('"').next().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn no_string_of_a_scenario_becomes_markup() {
    let again = ["holdoff", "simulate", "--scenario", HOSTILE].map(str::to_owned);
    let page = html(&results(), FROM, &again);
    for raw in [
        "<script",
        "<img",
        "</style><img",
        "\u{1}",
        "\u{202e}",
        "\u{2066}",
    ] {
        assert!(!page.contains(raw), "{raw:?}");
    }
    // Opened and closed once, by the page and by its plots themselves.
    assert_eq!(page.matches("</main>").count(), 1);
    assert_eq!(
        page.matches("<style>").count(),
        page.matches("</style>").count()
    );
    // Every attribute is closed where it should be: the label of a plot holds the raw quote.
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
    assert!(
        page.contains("'&lt;script") || page.contains("&#39;&lt;script"),
        "quoted for a shell"
    );
}

#[test]
fn the_numbers_of_the_table_are_those_of_the_results() {
    let results = results();
    let page = html(&results, FROM, &[]);
    for result in &results.strategies {
        let (counters, figures) = (&result.counters, &result.figures);
        let mut expected = vec![
            counters.calls,
            counters.calls_wasted,
            counters.calls_while_down,
            figures.amplification.unwrap(),
            figures.peak_per_second / 200.0,
            figures.peak_100ms_per_second / 200.0,
            figures.opens_within_s.unwrap(),
        ];
        expected.extend(figures.recovers_within_s);
        expected.extend([
            figures.half_served_s.unwrap(),
            figures.nearly_all_served_s.unwrap(),
            figures.goodput.unwrap() * 100.0,
            counters.refused,
            counters.questions + counters.reports,
        ]);
        assert_eq!(values(&page, result.strategy.label()), expected);
    }
    assert!(
        page.contains("<td>never</td>"),
        "full jitter does not recover"
    );
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = html(&results(), FROM, &[]).replace("http://www.w3.org/2000/svg", "");
    for link in [
        "http:", "https:", "src=", "href", "url(", "@import", "<link",
    ] {
        // What is escaped is text: the hostile strings name an image.
        let without_text = page.replace("img src=x", "");
        assert!(!without_text.contains(link), "{link}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn plots_are_named_for_readers_that_do_not_see_them() {
    let page = html(&results(), FROM, &[]);
    // One of all, two of strategies, two breakers.
    assert_eq!(
        page.matches("<svg class=\"plot\" role=\"img\" aria-label=\"")
            .count(),
        5
    );
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(
        page.contains("open from 0.5 to 1.5 s"),
        "the breaker in words"
    );
    assert!(page.contains("refused by 25 % of the clients"));
}

#[test]
fn a_missed_expectation_is_said_in_words() {
    let page = html(&results(), FROM, &[]);
    assert!(page.contains("0 of 1 hold."));
    assert!(page.contains(">NO</td>"));
}

#[test]
fn what_is_needed_to_see_it_again_is_there() {
    let again = [
        "holdoff",
        "simulate",
        "--scenario",
        "it's",
        "--set",
        "a.b=3s",
    ];
    let page = html(&results(), FROM, &again.map(str::to_owned));
    let command = escaped("holdoff simulate --scenario 'it'\\''s' --set a.b=3s");
    assert!(page.contains(&command), "{page}");
    assert!(page.contains("Seeds: 41, 42"), "{page}");
}

#[test]
fn results_without_anything_are_still_a_page() {
    let empty = Results {
        strategies: Vec::new(),
        verdicts: Vec::new(),
        seeds: Vec::new(),
        spans: Vec::new(),
        duration_s: 0.0,
        capacity_per_second: 0.0,
        ..results()
    };
    assert!(html(&empty, FROM, &[]).ends_with("</html>\n"));
}

#[test]
fn long_series_are_drawn_by_their_fullest_buckets() {
    let mut results = results();
    let spike = &mut results.strategies[0].series;
    spike.calls_per_second = vec![1.0; 10_000];
    spike.calls_per_second[7_777] = 5_000.0;
    spike.bucket_s = 2.0 / 10_000.0;
    let page = html(&results, FROM, &[]);
    assert!(page.len() < 300_000, "{}", page.len());
    assert!(page.contains("5000"), "the axis reaches the spike");
}

#[test]
fn the_page_names_the_entry_that_was_simulated_and_escapes_it() {
    let from = format!("namespaces.default.dependencies.\"{HOSTILE}\" of policies.yaml");
    let page = html(&results(), &from, &[]);
    assert!(page.contains("<dt>policy of holdoff</dt>"));
    assert!(page.contains(&crate::plot::escaped(&from)));
    assert!(!page.contains("<script"));
}
