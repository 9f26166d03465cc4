//! The one screen: what is there, how it is now, and what happened last. Pure; the terminal is
//! `output`'s.

use std::{fmt::Write, time::Duration};

use holdoff_client::proto::{BreakerState, Dependency};

use super::{
    super::{
        output::{Ink, Tone},
        span, words,
    },
    counts::Counts,
    course::Phase,
    story::{Lesson, Story, Told},
};

/// A bar is so long, and there are so many of them.
pub const STEP: Duration = Duration::from_millis(100);
pub const STEPS: usize = 40;
/// Sentences that stay, where there is room for them.
pub const TOLD: usize = 40;

/// The narrowest terminal in which nothing is cut off.
const WIDTH: usize = 80;
/// Where values and sentences begin.
const VALUES_AT: usize = 14;
const TEXT_AT: usize = 9;

/// All that is drawn.
#[derive(Debug)]
pub struct Shown<'a> {
    pub age: Duration,
    pub grpc: &'a str,
    pub dashboard: Option<&'a str>,
    pub clients: u32,
    pub phase: Phase,
    /// As the operator API tells it. `None`: not known yet.
    pub dependency: Option<&'a Dependency>,
    /// Calls that reached the dependency in the last second.
    pub reached_per_second: u64,
    pub counts: &'a Counts,
    pub story: &'a Story,
    pub told: &'a [Told],
    /// Lines that the terminal has.
    pub rows: usize,
}

/// The whole screen, line by line: what is there and how it is, and as many of the newest
/// sentences as there is room for.
pub fn screen(ink: Ink, shown: &Shown<'_>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<11} {value}");
    };
    let counts = shown.counts;
    line("dashboard", dashboard(shown));
    line("service", format!("gRPC on {}", shown.grpc));
    line(
        "dependency",
        format!(
            "payments is {}; {} calls/s reach it",
            shown.phase.word(),
            shown.reached_per_second
        ),
    );
    line("breaker", breaker(ink, shown.dependency));
    line(
        "fleet",
        format!(
            "{} clients: {} calls, {} succeeded, {} given up",
            shown.clients, counts.calls, counts.succeeded, counts.given_up
        ),
    );
    line(
        "attempts",
        format!("{} retries, {} probes", counts.retries, counts.probes),
    );
    line(
        "refused",
        wrapped(&refused(counts), VALUES_AT).join(&indent(VALUES_AT)),
    );
    let planned = counts.planned(shown.age, STEP, STEPS);
    line(
        "calendar",
        format!(
            "{} next 4 s, {} attempts",
            bars(&planned),
            planned.iter().sum::<usize>()
        ),
    );
    line("seen", seen(ink, shown.story));
    let title = format!(
        "holdoff demo, {} s: a flaky dependency and its callers. Ctrl-C ends it.\n\n",
        shown.age.as_secs()
    );
    let head = format!("{title}{text}\n");
    // The cursor stands on the line below the last.
    let mut room = shown.rows.saturating_sub(head.lines().count() + 1);
    let newest = shown.told.iter().rev().map(|told| paragraph(ink, told));
    let fitting = newest.take_while(|paragraph| {
        let lines = paragraph.lines().count();
        let fits = lines <= room;
        room = room.saturating_sub(lines);
        fits
    });
    let told: Vec<String> = fitting.collect();
    told.into_iter().rev().fold(head, |out, told| out + &told)
}

/// One sentence on as many lines as it needs.
fn paragraph(ink: Ink, told: &Told) -> String {
    let lines = wrapped(&told.text, TEXT_AT);
    let lines: Vec<_> = lines.iter().map(|it| ink.paint(told.tone, it)).collect();
    let text = lines.join(&indent(TEXT_AT));
    format!("{:>5.1} s  {text}\n", told.at.as_secs_f64())
}

fn indent(columns: usize) -> String {
    format!("\n{}", " ".repeat(columns))
}

/// Lines that end at words, for the room right of a column.
fn wrapped(text: &str, from: usize) -> Vec<String> {
    let room = WIDTH - from;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// One sentence with its time, on one line.
pub fn sentence(ink: Ink, told: &Told) -> String {
    let text = ink.paint(told.tone, &told.text);
    format!("{:>5.1} s  {text}\n", told.at.as_secs_f64())
}

fn dashboard(shown: &Shown<'_>) -> String {
    match shown.dashboard {
        Some(address) => format!("http://{address}/ (open it in a browser)"),
        None => "off (--http)".to_owned(),
    }
}

fn breaker(ink: Ink, dependency: Option<&Dependency>) -> String {
    let Some(dependency) = dependency else {
        return "not known yet".to_owned();
    };
    let tone = match dependency.state() {
        BreakerState::Closed | BreakerState::ForcedClosed => Tone::Good,
        BreakerState::HalfOpen | BreakerState::Recovering => Tone::Watch,
        BreakerState::Open | BreakerState::ForcedOpen => Tone::Bad,
        BreakerState::Unspecified => Tone::Neutral,
    };
    let mut text = ink.paint(tone, &words::state(dependency.state));
    if let Some(left) = &dependency.open_for {
        let _ = write!(
            text,
            ", first probe in {}",
            span::human(span::from_wire(left))
        );
    }
    if let Some(left) = &dependency.held_for {
        let _ = write!(text, ", held for {}", span::human(span::from_wire(left)));
    }
    let _ = write!(
        text,
        "; trips: {}, budget: {} retries",
        dependency.trips, dependency.budget_left
    );
    text
}

fn refused(counts: &Counts) -> String {
    let each = counts.denied.iter();
    let each: Vec<_> = each
        .map(|(no, count)| format!("{} {count}", no.word()))
        .collect();
    match each.is_empty() {
        true => "none".to_owned(),
        false => each.join(", "),
    }
}

fn bars(planned: &[usize]) -> String {
    const BARS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |count: &usize| BARS[(*count).min(BARS.len() - 1)];
    planned.iter().map(bar).collect()
}

fn seen(ink: Ink, story: &Story) -> String {
    let mark = |lesson: Lesson| match story.seen.contains(&lesson) {
        true => ink.paint(Tone::Good, &format!("[x] {}", lesson.word())),
        false => format!("[ ] {}", lesson.word()),
    };
    Lesson::ALL.map(mark).join(" ")
}
