//! The tables of a report: one row a strategy, one row an expectation.

use crate::{
    plot::escaped,
    published::figure::number,
    results::{Results, StrategyResult, Verdict},
};

/// A column: its heading, its value of one strategy, its digits, and what an absent one is.
type Column = (
    &'static str,
    fn(&StrategyResult, &Results) -> Option<f64>,
    usize,
    &'static str,
);

const NEVER: &str = "never";
const NOTHING: &str = "–";

const COLUMNS: [Column; 14] = [
    ("calls", |it, _| Some(it.counters.calls), 0, NOTHING),
    (
        "wasted calls",
        |it, _| Some(it.counters.calls_wasted),
        0,
        NOTHING,
    ),
    (
        "calls while down",
        |it, _| Some(it.counters.calls_while_down),
        0,
        NOTHING,
    ),
    (
        "calls per operation",
        |it, _| it.figures.amplification,
        2,
        NOTHING,
    ),
    (
        "fullest second after, × capacity",
        |it, all| of_capacity(it.figures.peak_per_second, all),
        2,
        NOTHING,
    ),
    (
        "fullest 100 ms after, × capacity",
        |it, all| of_capacity(it.figures.peak_100ms_per_second, all),
        2,
        NOTHING,
    ),
    (
        "opens within, s",
        |it, _| it.figures.opens_within_s,
        2,
        NOTHING,
    ),
    (
        "recovers within, s",
        |it, _| it.figures.recovers_within_s,
        1,
        NEVER,
    ),
    (
        "half served after, s",
        |it, _| it.figures.half_served_s,
        1,
        NOTHING,
    ),
    (
        "99 % served after, s",
        |it, _| it.figures.nearly_all_served_s,
        1,
        NOTHING,
    ),
    (
        "goodput, %",
        |it, _| percent(it.figures.goodput),
        1,
        NOTHING,
    ),
    (
        "failed after, %",
        |it, _| percent(it.figures.failed_after),
        1,
        NOTHING,
    ),
    (
        "refused by the strategy",
        |it, _| Some(it.counters.refused),
        0,
        NOTHING,
    ),
    (
        "messages to the coordinator",
        |it, _| Some(it.counters.questions + it.counters.reports),
        0,
        NOTHING,
    ),
];

fn of_capacity(per_second: f64, results: &Results) -> Option<f64> {
    Some(per_second / results.capacity_per_second).filter(|share| share.is_finite())
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

/// One row a strategy.
pub fn strategies(results: &Results) -> String {
    let headings = COLUMNS.map(|(heading, ..)| format!("<th scope=\"col\">{heading}</th>"));
    let mut table = format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Figures of each strategy\"><table>\n\
         <caption>After: once the last disturbance has ended. –: nothing to measure, or not in this run.</caption>\n\
         <thead><tr><th scope=\"col\">strategy</th>{}</tr></thead>\n<tbody>\n",
        headings.concat()
    );
    for result in &results.strategies {
        table += &format!("<tr><th scope=\"row\">{}</th>", escaped(&result.label));
        for (_, value, digits, absent) in COLUMNS {
            table += &cell(value(result, results), digits, absent);
        }
        table += "</tr>\n";
    }
    table + "</tbody></table></div>\n"
}

fn cell(value: Option<f64>, digits: usize, absent: &str) -> String {
    match value {
        Some(value) => format!("<td data-value=\"{value}\">{}</td>", number(value, digits)),
        None => format!("<td>{absent}</td>"),
    }
}

/// One row an expectation; nothing where there are none.
pub fn verdicts(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let held = verdicts.iter().filter(|verdict| verdict.holds).count();
    let class = if held == verdicts.len() {
        "holds"
    } else {
        "missed"
    };
    let mut table = format!(
        "<section><h2>Expectations</h2>\n<p class=\"{class}\">{held} of {} hold.</p>\n\
         <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Expectations\"><table>\n\
         <thead><tr><th scope=\"col\">strategy</th><th scope=\"col\">expectation</th>\
         <th scope=\"col\">wanted</th><th scope=\"col\">found</th><th scope=\"col\">holds</th></tr></thead>\n<tbody>\n",
        verdicts.len()
    );
    for verdict in verdicts {
        let (class, word) = match verdict.holds {
            true => ("holds", "yes"),
            false => ("missed", "NO"),
        };
        table += &format!(
            "<tr><th scope=\"row\">{}</th><td class=\"text\">{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{word}</td></tr>\n",
            escaped(verdict.strategy.label()),
            escaped(&verdict.assertion),
            escaped(&verdict.wanted),
            escaped(&verdict.found),
        );
    }
    table + "</tbody></table></div></section>\n"
}
