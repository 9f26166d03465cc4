//! The list: a line for each dependency that is on the screen, and what lies below it.

use holdoff_client::proto::{BreakerState, Dependency, Event};
use ratatui::{Frame, layout::Rect, style::Modifier, text::Line};

use super::{
    model::{Model, Pane},
    text::{cells, cut, fit, right, wrap},
    view::{put, shape, style},
};
use crate::cli::{
    events,
    output::{Ink, Tone},
    span, status,
};

/// The columns that a width has room for.
struct Columns {
    name: usize,
    failed: usize,
    calls: usize,
    budget: usize,
    why: usize,
}

const STATE: usize = 15;
const SINCE: usize = 9;

impl Columns {
    fn of(width: usize) -> Self {
        let failed = if width >= 60 { 7 } else { 0 };
        let budget = if width >= 70 { 7 } else { 0 };
        let calls = if width >= 100 { 8 } else { 0 };
        let fixed = STATE + 1 + SINCE + 1 + failed + budget + calls;
        let rest = width.saturating_sub(fixed);
        let name = (rest * 2 / 5).clamp(rest.min(12), 40);
        let why = rest.saturating_sub(name + 1);
        Self {
            name,
            failed,
            calls,
            budget,
            why,
        }
    }

    fn line(&self, state: &str, cells: [&str; 6]) -> String {
        let [name, since, failed, calls, budget, why] = cells;
        let mut line = format!("{} {} ", fit(state, STATE), fit(name, self.name));
        line.push_str(&right(since, SINCE));
        for (text, width) in [
            (failed, self.failed),
            (calls, self.calls),
            (budget, self.budget),
        ] {
            line.push_str(&right(text, width));
        }
        line.push(' ');
        line.push_str(&cut(why, self.why));
        line
    }
}

pub fn list(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let width = usize::from(area.width);
    let columns = Columns::of(width);
    let headings = ["NAME", "SINCE", "FAILED", "CALLS/S", "BUDGET", "WHY"];
    let quiet = style(model.ink, Tone::Quiet);
    put(
        frame,
        area,
        2,
        Line::styled(columns.line("STATE", headings), quiet),
    );
    let moment = model.moment().elapsed;
    let selected = model.selected_at();
    let height = model.list_height();
    let shown = model
        .order
        .iter()
        .enumerate()
        .skip(model.offset)
        .take(height);
    for (line, (at, name)) in shown.enumerate() {
        let Some(row) = model.rows.get(name) else {
            continue;
        };
        let d = row.aged(moment);
        let text = fit(&of_row(&columns, &d), width);
        let mut style = match model.is_stale() {
            true => quiet,
            false => style(model.ink, status::tone(&d)),
        };
        if at == selected {
            style = style.add_modifier(Modifier::REVERSED);
        }
        put(frame, area, 3 + line as u16, Line::styled(text, style));
    }
    let mut y = 3 + height as u16;
    if model.strip_height() > 0 {
        put(frame, area, y, Line::styled("─".repeat(width), quiet));
        for (at, line) in strip(model, width).into_iter().take(2).enumerate() {
            put(frame, area, y + 1 + at as u16, Line::raw(line));
        }
        y += model.strip_height();
    }
    if model.pane == Pane::Events {
        put(frame, area, y, Line::styled(rule(model, width), quiet));
        let room = usize::from(model.pane_height()) - 1;
        let newest = model.events.len().saturating_sub(room);
        for (at, event) in model.events.iter().skip(newest).enumerate() {
            put(
                frame,
                area,
                y + 1 + at as u16,
                happened(model, event, width),
            );
        }
    }
}

fn rule(model: &Model, width: usize) -> String {
    let missed = match model.missed {
        0 => String::new(),
        n => format!(" ({n} missed)"),
    };
    let head = format!("── events{missed} ");
    let line = "─".repeat(width.saturating_sub(cells(&head)));
    cut(&(head + &line), width)
}

fn of_row(columns: &Columns, d: &Dependency) -> String {
    let state = format!("{} {}", shape(d.state()), status::state_word(d));
    let since = span::human_or_dash(d.in_state_for.as_ref());
    let mut failed = status::failed(d);
    if status::is_of_trip(d) {
        failed.push('*');
    }
    let calls = per_second(d.calls_per_second);
    let budget = status::budget_short(d);
    columns.line(
        &state,
        [&d.name, &since, &failed, &calls, &budget, &notes(d)],
    )
}

pub fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate >= 0.05 => format!("{rate:.1}"),
        _ => "0".to_owned(),
    }
}

/// What is soon to end or begin, then why.
pub fn notes(d: &Dependency) -> String {
    let mut notes = Vec::new();
    if let Some(order) = &d.r#override {
        notes.push(match &order.expires_in {
            Some(left) => format!("{} left", span::human(span::from_wire(left))),
            None => "until released".to_owned(),
        });
    }
    if let Some(span) = &d.open_for {
        notes.push(format!("probe in {}", span::human(span::from_wire(span))));
    }
    if let Some(span) = &d.held_for {
        notes.push(format!("held for {}", span::human(span::from_wire(span))));
    }
    if status::is_unhealthy(d) {
        notes.push("health checks fail".to_owned());
    }
    if d.probes_out > 0 {
        notes.push(format!(
            "{} out",
            status::counted(d.probes_out.into(), "probe")
        ));
    }
    let shadow = status::shadow(d);
    if !shadow.is_empty() && d.shadow_state() != BreakerState::Closed {
        notes.push(format!("in shadow mode {shadow}"));
    }
    notes.push(match &d.r#override {
        // What its operator wrote says more than that one did.
        Some(order) => format!("{} ({})", order.reason, order.owner),
        None => d.detail.clone(),
    });
    notes.retain(|note| !note.is_empty());
    notes.join("; ")
}

/// The chosen one's whole reason.
fn strip(model: &Model, width: usize) -> Vec<String> {
    model.chosen().map_or_else(Vec::new, |row| {
        let d = row.aged(model.moment().elapsed);
        wrap(&format!("{}: {}", d.name, notes(&d)), width)
    })
}

pub fn happened(model: &Model, event: &Event, width: usize) -> Line<'static> {
    let text = events::line(Ink::Plain, event);
    Line::styled(
        cut(text.trim_end(), width),
        style(model.ink, events::tone(event)),
    )
}
