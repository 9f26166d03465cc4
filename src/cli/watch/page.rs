//! A dependency's page: what is known of it, as lines to scroll through.
//!
//! The timeline is made of events; rates are those that were seen while the page is open, one
//! a second, since the contract has no history.

use holdoff_client::proto::{BreakerState, Dependency, Event, PolicyValue};
use ratatui::text::Line;

use super::{
    list,
    model::{Model, Page, Policy, Sample},
    text::{bars, cells, fit, wrap},
    view,
};
use crate::cli::{escape::escape, output::Tone, span, status, words};

const LABEL: usize = 16;
/// Events that are listed.
const EVENTS: usize = 20;
/// What the timeline spans.
const TIMELINE_SECONDS: i64 = 600;

pub fn lines(model: &Model, page: &Page, width: usize) -> Vec<Line<'static>> {
    let Some(row) = model.rows.get(&page.name) else {
        let text = format!("{}: gone; nothing names it any more", page.name);
        return wrap(&text, width).into_iter().map(Line::raw).collect();
    };
    let mut d = row.aged(model.moment().elapsed);
    d.followed.clone_from(&page.followed);
    let mut lines = head(model, &d, width);
    for (label, text) in facts(&d) {
        labelled(&mut lines, label, &text, width);
    }
    let events: Vec<&Event> = model
        .events
        .iter()
        .filter(|event| event.dependency == d.name)
        .collect();
    heading(model, &mut lines, "Last ten minutes", width);
    labelled(
        &mut lines,
        "states",
        &timeline(model, &d, &events, width.saturating_sub(LABEL)),
        width,
    );
    let legend = "█ open X forced ▒ half-open ░ recovering o forced-closed · closed";
    labelled(&mut lines, "", legend, width);
    heading(model, &mut lines, "Rates, since this page is open", width);
    rates(&mut lines, page, width);
    ahead(model, &mut lines, &d, width);
    let reporters = status::reporters(&d);
    if !reporters.is_empty() {
        heading(model, &mut lines, "Reporters", width);
    }
    for line in reporters {
        lines.extend(wrap(&line, width).into_iter().map(Line::raw));
    }
    heading(model, &mut lines, "What happened", width);
    if events.is_empty() {
        lines.push(Line::raw("nothing in the last hour"));
    }
    let newest = events.iter().rev().take(EVENTS);
    lines.extend(newest.map(|event| list::happened(model, event, width)));
    heading(model, &mut lines, "Policy", width);
    policy(&mut lines, &page.policy, width);
    lines
}

fn head(model: &Model, d: &Dependency, width: usize) -> Vec<Line<'static>> {
    let since = span::human_or_dash(d.in_state_for.as_ref());
    let state = status::state_word(d);
    let text = format!(
        "{} {} is {state}, for {since} now",
        view::shape(d.state()),
        d.name
    );
    let style = view::style(model.ink, status::tone(d));
    wrap(&text, width)
        .into_iter()
        .map(|line| Line::styled(line, style))
        .collect()
}

fn facts(d: &Dependency) -> Vec<(&'static str, String)> {
    let ends = |span: &Option<prost_types::Duration>| {
        span.as_ref()
            .map_or_else(String::new, |span| span::human(span::from_wire(span)))
    };
    let mut facts = vec![
        ("why", d.detail.clone()),
        ("first probe in", ends(&d.open_for)),
        ("held for", ends(&d.held_for)),
        ("override", status::override_long(d)),
        ("in shadow mode", status::shadow(d)),
        ("health checks", status::checks(d)),
        (
            "calls",
            format!(
                "{} a second, of {}; usually {}",
                list::per_second(d.calls_per_second),
                status::counted(d.active_instances.into(), "instance"),
                span::human_or_dash(d.usual_latency.as_ref()),
            ),
        ),
        (
            "of them",
            format!(
                "{} failed, {} slow{}; {} of a trip",
                status::failed(d),
                status::share(d.slow_ratio),
                if status::is_of_trip(d) {
                    " of those that opened it"
                } else {
                    ""
                },
                status::share(d.suspicion),
            ),
        ),
        ("retry budget", status::budget(d)),
        ("planned", status::planned(d)),
        ("refused so far", status::denials(d)),
        ("refused alone", status::refused_alone(d)),
        (
            "out now",
            format!(
                "{}, {}",
                status::counted(d.probes_out.into(), "probe"),
                status::counted(d.permits_out, "permit"),
            ),
        ),
        (
            "opened",
            format!("{}; epoch {}", status::times(d.trips), d.epoch),
        ),
    ];
    if !d.live {
        facts.push(("", "no calls yet: only a policy names it".to_owned()));
    }
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

fn heading(model: &Model, lines: &mut Vec<Line<'static>>, text: &str, width: usize) {
    let head = format!("── {text} ");
    let rule = "─".repeat(width.saturating_sub(cells(&head)));
    lines.push(Line::styled(
        head + &rule,
        view::style(model.ink, Tone::Quiet),
    ));
}

fn labelled(lines: &mut Vec<Line<'static>>, label: &str, text: &str, width: usize) {
    for (at, line) in wrap(text, width.saturating_sub(LABEL))
        .into_iter()
        .enumerate()
    {
        let label = if at == 0 { label } else { "" };
        lines.push(Line::raw(format!("{}{line}", fit(label, LABEL))));
    }
}

fn mark(state: BreakerState) -> char {
    match state {
        BreakerState::Open => '█',
        BreakerState::ForcedOpen => 'X',
        BreakerState::HalfOpen => '▒',
        BreakerState::Recovering => '░',
        BreakerState::ForcedClosed => 'o',
        BreakerState::Closed => '·',
        BreakerState::Unspecified => ' ',
    }
}

/// A cell is the state at its end: what the first event after it came from, else what is now.
/// A state that lasts less than a cell is shown all the same, where it is worse.
fn timeline(model: &Model, d: &Dependency, events: &[&Event], width: usize) -> String {
    let end = model.moment().wall.as_second();
    let seconds = |event: &Event| event.time.as_ref().map_or(0, |time| time.seconds);
    let moves: Vec<&&Event> = events
        .iter()
        .filter(|event| event.from() != BreakerState::Unspecified)
        .collect();
    let cells = width.clamp(1, 120) as i64;
    let state_at = |time: i64| {
        let after = moves.iter().find(|event| seconds(event) > time);
        after.map_or(d.state(), |event| event.from())
    };
    let cell = |at: i64| {
        let (from, to) = (
            end - TIMELINE_SECONDS + TIMELINE_SECONDS * at / cells,
            end - TIMELINE_SECONDS + TIMELINE_SECONDS * (at + 1) / cells,
        );
        let within = moves
            .iter()
            .filter(|event| (from + 1..=to).contains(&seconds(event)));
        let seen = within.map(|event| event.to()).chain([state_at(to)]);
        let worst = seen.min_by_key(|state| match state {
            BreakerState::Open => 0,
            BreakerState::ForcedOpen => 1,
            BreakerState::HalfOpen => 2,
            BreakerState::Recovering => 3,
            BreakerState::ForcedClosed => 4,
            BreakerState::Closed => 5,
            BreakerState::Unspecified => 6,
        });
        mark(worst.unwrap_or(BreakerState::Unspecified))
    };
    (0..cells).map(cell).collect()
}

/// The calendar as bars, and in words.
fn ahead(model: &Model, lines: &mut Vec<Line<'static>>, d: &Dependency, width: usize) {
    let Some(followed) = &d.followed else {
        return;
    };
    let Some(part) = &followed.calendar_part else {
        return;
    };
    heading(model, lines, "Calendar ahead", width);
    let label = format!("{} a bar", span::human(span::from_wire(part)));
    let counts: Vec<f64> = followed
        .calendar
        .iter()
        .map(|count| *count as f64)
        .collect();
    let shown = &counts[..counts.len().min(width.saturating_sub(LABEL))];
    let drawn = bars(shown, shown.len());
    lines.push(Line::raw(format!("{}{drawn}", fit(&label, LABEL))));
    labelled(lines, "retries", &status::calendar(d), width);
}

fn rates(lines: &mut Vec<Line<'static>>, page: &Page, width: usize) {
    let Some(last) = page.samples.back() else {
        lines.push(Line::raw("asking…"));
        return;
    };
    type Pick = fn(&Sample) -> f64;
    let shown: [(&str, String, Pick); 4] = [
        ("calls/s", list::per_second(last.calls), |sample| {
            sample.calls
        }),
        ("failed", status::share(last.failing), |sample| {
            sample.failing
        }),
        ("budget left", last.left.to_string(), |sample| {
            sample.left as f64
        }),
        ("permits out", last.out.to_string(), |sample| {
            sample.out as f64
        }),
    ];
    for (label, now, pick) in shown {
        let values: Vec<f64> = page.samples.iter().map(pick).collect();
        let room = width.saturating_sub(LABEL + 10);
        let line = format!(
            "{}{}{}",
            fit(label, LABEL),
            fit(&now, 10),
            bars(&values, room)
        );
        lines.push(Line::raw(line));
    }
}

fn policy(lines: &mut Vec<Line<'static>>, policy: &Policy, width: usize) {
    match policy {
        Policy::Asked => lines.push(Line::raw("asking…")),
        Policy::Refused(why) => lines.extend(wrap(why, width).into_iter().map(Line::raw)),
        Policy::Known(values) => {
            let longest = |pick: fn(&PolicyValue) -> &str| {
                values
                    .iter()
                    .map(|value| cells(pick(value)))
                    .max()
                    .unwrap_or(0)
            };
            let field = longest(|value| &value.field).min(width / 2);
            let written = longest(|value| &value.value).min(width / 4);
            for value in values {
                let text = format!(
                    "{}  {}  {}",
                    fit(&value.field, field),
                    fit(&value.value, written),
                    value.origin,
                );
                lines.push(Line::raw(fit(&text, width)));
            }
        }
    }
}

/// For the lines of a terminal that is none.
pub fn one_line(d: &Dependency) -> String {
    let since = span::human_or_dash(d.in_state_for.as_ref());
    let state = words::state(d.state);
    let notes = escape(&list::notes(d)).into_owned();
    format!("{state}, for {since} now: {notes}")
}
