//! Results and scenarios as text.

use holdoff_simulate::{
    Results, Scenario,
    results::{Figures, StrategyResult, Verdict},
};

use crate::cli::output::{self, Ink, Tone};

pub fn scenarios(ink: Ink, scenarios: &[Scenario]) -> String {
    let rows = scenarios.iter().map(|it| {
        let cells = vec![
            it.name.clone(),
            it.clients.to_string(),
            it.duration.to_string(),
            it.description.clone(),
        ];
        (Tone::Neutral, cells)
    });
    output::table(
        ink,
        &["NAME", "CLIENTS", "TIME", "WHAT HAPPENS"],
        rows.collect(),
    )
}

pub fn results(ink: Ink, results: &Results) -> String {
    let seeds = match results.seeds.as_slice() {
        [seed] => format!("seed {seed}"),
        [first, .., last] => format!("seeds {first} to {last}: medians of times, means of counts"),
        [] => String::new(),
    };
    let mut text = format!(
        "{}: {} clients, {} calls/s of capacity, {:.0} s; {seeds}\n{}\n\n",
        results.scenario,
        results.clients,
        whole(results.capacity_per_second),
        results.duration_s,
        results.description,
    );
    text += &strategies(ink, results);
    if !results.verdicts.is_empty() {
        text += "\n";
        text += &verdicts(ink, &results.verdicts);
    }
    text
}

fn strategies(ink: Ink, results: &Results) -> String {
    let headings = [
        "STRATEGY",
        "CALLS",
        "DOWN",
        "WASTED",
        "PER OP",
        "PEAK",
        "OF CAPACITY",
        "OPENS",
        "RECOVERS",
        "GOODPUT",
        "FAILED AFTER",
    ];
    let rows = results
        .strategies
        .iter()
        .map(|it| row(it, results.capacity_per_second));
    output::table(ink, &headings, rows.collect())
}

fn row(result: &StrategyResult, capacity: f64) -> (Tone, Vec<String>) {
    let Figures {
        amplification,
        peak_per_second,
        peak_100ms_per_second: _,
        recovers_within_s,
        opens_within_s,
        goodput,
        failed_after,
        half_served_s: _,
        nearly_all_served_s: _,
    } = result.figures;
    let counters = &result.counters;
    let cells = vec![
        result.strategy.name().to_owned(),
        whole(counters.calls),
        whole(counters.calls_while_down),
        whole(counters.calls_wasted),
        amplification.map_or("-".to_owned(), |it| format!("{it:.2}")),
        format!("{}/s", whole(peak_per_second)),
        format!("{:.2}", peak_per_second / capacity),
        opens_within_s.map_or("-".to_owned(), |it| format!("{it:.2} s")),
        recovers_within_s.map_or("never".to_owned(), |it| format!("{it:.1} s")),
        goodput.map_or("-".to_owned(), percent),
        failed_after.map_or("-".to_owned(), percent),
    ];
    (Tone::Neutral, cells)
}

fn verdicts(ink: Ink, verdicts: &[Verdict]) -> String {
    let rows = verdicts.iter().map(|it| {
        let (tone, word) = match it.holds {
            true => (Tone::Good, "holds"),
            false => (Tone::Bad, "FAILS"),
        };
        let cells = vec![
            it.strategy.name().to_owned(),
            it.assertion.clone(),
            it.wanted.clone(),
            it.found.clone(),
            word.to_owned(),
        ];
        (tone, cells)
    });
    output::table(
        ink,
        &["STRATEGY", "ASSERTION", "WANTED", "FOUND", ""],
        rows.collect(),
    )
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Rounded, with a comma between thousands.
fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
