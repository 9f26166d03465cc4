//! What a simulation found, as one HTML page that needs nothing else: no script, no link, no
//! file beside it. It can be mailed, archived with a build, and opened years later.
//!
//! Text comes from scenarios that anybody may have written, so every string is escaped, and the
//! page forbids scripts and loading by its own policy as well. Each cell of its tables carries
//! the exact number beside the readable one (`data-value`).

mod charts;
mod page;
mod tables;

#[cfg(test)]
mod tests;

use crate::{
    plot::escaped,
    published::figure::number,
    results::{Results, StrategyResult},
};

/// The whole page. `policy_from` says where the policy of holdoff is written, `again` is the command
/// that finds the same, word by word.
pub fn html(results: &Results, policy_from: &str, again: &[String]) -> String {
    let mut body = header(results, policy_from);
    body += &tables::verdicts(&results.verdicts);
    body += "<section><h2>Strategies</h2>\n";
    body += &tables::strategies(results);
    body += "</section>\n<section><h2>Load on the dependency</h2>\n";
    body += &charts::overview(results);
    body += "</section>\n";
    for result in &results.strategies {
        body += &one_strategy(results, result);
    }
    body += &reproduce(results, again);
    page::around(&format!("{}: simulated", results.scenario), &body)
}

fn header(results: &Results, policy_from: &str) -> String {
    let description = match results.description.is_empty() {
        true => String::new(),
        false => format!("<p>{}</p>\n", escaped(&results.description)),
    };
    let facts = [
        ("clients", number(f64::from(results.clients), 0)),
        (
            "capacity",
            format!("{} calls/s", number(results.capacity_per_second, 0)),
        ),
        ("simulated", format!("{} s", number(results.duration_s, 0))),
        ("seeds", number(results.seeds.len() as f64, 0)),
        ("policy of holdoff", escaped(policy_from)),
    ];
    let facts = facts.map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"));
    format!(
        "<header><h1>{}</h1>\n{description}<dl>{}</dl></header>\n",
        escaped(&results.scenario),
        facts.concat()
    )
}

fn one_strategy(results: &Results, result: &StrategyResult) -> String {
    format!(
        "<section><h2>{}</h2>\n{}</section>\n",
        escaped(&result.label),
        charts::of_strategy(results, result)
    )
}

fn reproduce(results: &Results, again: &[String]) -> String {
    let seeds: Vec<String> = results.seeds.iter().map(u64::to_string).collect();
    let words: Vec<String> = again.iter().map(|word| quoted(word)).collect();
    let command = words.join(" ");
    format!(
        "<section><h2>To see it again</h2>\n<pre><code>{}</code></pre>\n<p>Seeds: {}. The same \
         scenario, policy and seed give the same numbers on every machine. Times are medians over \
         the seeds, counts are means, and the charts show the first.</p></section>\n",
        escaped(&command),
        escaped(&seeds.join(", "))
    )
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '=' | ',' | ':');
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
