//! Draws the model: pure. Only what is on the screen is put together, so ten thousand
//! dependencies cost what forty do. A state is a word, a shape and a colour, never colour alone.

use holdoff_client::proto::{BreakerState, Dependency, Event};
use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::{
    dialog::{Dialog, Field},
    model::{Filter, Link, Model, Over, Pane},
    page,
    text::{cells, cut, fit, right, wrap},
};
use crate::cli::{
    events,
    output::{Ink, Tone},
    span, status, words,
};

const HELP: &[&str] = &[
    "j k ↑ ↓ PgUp PgDn g G   move",
    "Enter   a dependency's page       Esc   back; ends search and filter",
    "/       search names, reasons, owners",
    "f F     filter by state           s S   sort",
    "e       events                    n     another namespace",
    "o       force open                c     force closed",
    "r       release                   R     reset",
    "h       clear hold                q     quit",
    "Ctrl-L  draw anew                 Ctrl-Z  to the shell; fg comes back",
    "",
    "■ open  ▣ forced-open  ◐ half-open  ◔ recovering  ◇ forced-closed  ● closed",
    "Actions ask why, say whom they hit, and want a y.",
];

pub fn view(model: &Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < 20 || area.height < 6 {
        put(
            frame,
            area,
            0,
            Line::raw(cut("holdoff: too small", area.width.into())),
        );
        return;
    }
    put(frame, area, 0, title(model, area.width.into()));
    put(frame, area, 1, counts(model, area.width.into()));
    match &model.page {
        Some(shown) => {
            let lines = page::lines(model, shown, area.width.into());
            let height = usize::from(area.height) - 3;
            let scroll = shown.scroll.min(lines.len().saturating_sub(height));
            for (at, line) in lines.into_iter().skip(scroll).take(height).enumerate() {
                put(frame, area, 2 + at as u16, line);
            }
        }
        None => list(model, frame, area),
    }
    put(
        frame,
        area,
        area.height - 1,
        footer(model, area.width.into()),
    );
    match &model.over {
        Over::Nothing | Over::Search | Over::Namespace(_) => {}
        Over::Help => {
            let lines = HELP.iter().map(|line| Line::raw(*line)).collect();
            boxed(frame, area, "Keys", lines);
        }
        Over::Dialog(dialog) => {
            let inside = usize::from(area.width.min(76)) - 4;
            boxed(frame, area, "", asked(model, dialog, inside));
        }
    }
}

fn put(frame: &mut Frame<'_>, area: Rect, y: u16, line: Line<'_>) {
    if y < area.height {
        frame
            .buffer_mut()
            .set_line(area.x, area.y + y, &line, area.width);
    }
}

pub fn style(ink: Ink, tone: Tone) -> Style {
    let style = Style::default();
    match (ink, tone) {
        (_, Tone::Neutral) => style,
        (Ink::Plain, Tone::Bad) => style.add_modifier(Modifier::BOLD),
        (Ink::Plain, Tone::Good | Tone::Watch) => style,
        (_, Tone::Quiet) => style.add_modifier(Modifier::DIM),
        (Ink::Coloured, Tone::Good) => style.fg(Color::Green),
        (Ink::Coloured, Tone::Watch) => style.fg(Color::Yellow),
        (Ink::Coloured, Tone::Bad) => style.fg(Color::Red),
    }
}

pub fn shape(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Open => "■",
        BreakerState::ForcedOpen => "▣",
        BreakerState::HalfOpen => "◐",
        BreakerState::Recovering => "◔",
        BreakerState::ForcedClosed => "◇",
        BreakerState::Closed => "●",
        BreakerState::Unspecified => "?",
    }
}

fn title(model: &Model, width: usize) -> Line<'static> {
    let time = |wall: jiff::Timestamp| wall.strftime("%H:%M:%SZ").to_string();
    let (tone, end) = match (&model.link, model.is_stale()) {
        (Link::Lost(cause), _) => {
            let since = time(model.heard.wall);
            (
                Tone::Bad,
                format!("STALE, as of {since}; reconnecting: {cause}"),
            )
        }
        (Link::Asked | Link::Live, true) => (
            Tone::Bad,
            format!("STALE, as of {}: no answer", time(model.heard.wall)),
        ),
        (Link::Asked, false) => (Tone::Watch, "connecting".to_owned()),
        (Link::Live, false) => (Tone::Good, format!("live {}", time(model.now.wall))),
    };
    let end = cut(&end, width.saturating_sub(8));
    let start = format!("holdoff {} at {}", model.namespace, model.server);
    let room = width.saturating_sub(cells(&end) + 2);
    Line::from(vec![
        Span::styled(
            fit(&start, room),
            Style::default().add_modifier(Modifier::BOLD),
        ),
        Span::raw("  "),
        Span::styled(end, style(model.ink, tone).add_modifier(Modifier::BOLD)),
    ])
}

fn counts(model: &Model, width: usize) -> Line<'static> {
    let mut said = Vec::new();
    for state in [
        BreakerState::Open,
        BreakerState::ForcedOpen,
        BreakerState::HalfOpen,
        BreakerState::Recovering,
        BreakerState::ForcedClosed,
        BreakerState::Closed,
    ] {
        let count = model
            .rows
            .values()
            .filter(|row| row.told.state() == state)
            .count();
        if count > 0 {
            said.push(format!(
                "{} {count} {}",
                shape(state),
                words::state(state.into())
            ));
        }
    }
    let mut text = match said.is_empty() {
        true if model.link == Link::Asked => "asking…".to_owned(),
        true => "no dependencies".to_owned(),
        false => said.join("  "),
    };
    let filter = match model.filter {
        Filter::All => None,
        Filter::Trouble => Some("in trouble".to_owned()),
        Filter::State(state) => Some(words::state(state.into())),
    };
    let narrowed = filter.is_some() || !model.search.is_empty();
    if narrowed {
        text = format!("{} of {}", model.order.len(), model.rows.len());
        text.extend(filter.map(|filter| format!(", {filter}")));
        if !model.search.is_empty() {
            text.push_str(&format!(", with {:?}", model.search));
        }
    }
    let sort = format!("by {}", model.sort.word());
    let room = width.saturating_sub(cells(&sort) + 2);
    Line::raw(format!("{}  {sort}", fit(&text, room)))
}

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

fn list(model: &Model, frame: &mut Frame<'_>, area: Rect) {
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
    let failed = status::share(d.failure_ratio);
    let calls = per_second(d.calls_per_second);
    let budget = d.budget_left.to_string();
    columns.line(
        &state,
        [&d.name, &since, &failed, &calls, &budget, &notes(d)],
    )
}

pub fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate > 0.0 => format!("{rate:.1}"),
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

fn footer(model: &Model, width: usize) -> Line<'static> {
    match &model.over {
        Over::Search => return Line::raw(cut(&format!("/{}▏", model.search), width)),
        Over::Namespace(name) => return Line::raw(cut(&format!("namespace: {name}▏"), width)),
        Over::Nothing | Over::Help | Over::Dialog(_) => {}
    }
    if let Some(notice) = &model.notice {
        let style = style(model.ink, notice.tone);
        return Line::styled(cut(&notice.text, width), style);
    }
    let keys = match &model.page {
        Some(_) => {
            "Esc back  jk scroll  o open  c close  r release  R reset  h hold  ? help  q quit"
        }
        None => "Enter page  / search  f filter  s sort  e events  o c r R h act  ? help  q quit",
    };
    Line::styled(cut(keys, width), style(model.ink, Tone::Quiet))
}

fn asked(model: &Model, dialog: &Dialog, width: usize) -> Vec<Line<'static>> {
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let plain = |text: &str| {
        wrap(text, width)
            .into_iter()
            .map(Line::raw)
            .collect::<Vec<_>>()
    };
    let head = format!("{} {}", dialog.action.title(), dialog.dependency);
    let mut lines: Vec<_> = wrap(&head, width)
        .into_iter()
        .map(|line| Line::styled(line, bold))
        .collect();
    if let Some(row) = model.rows.get(&*dialog.dependency) {
        let d = row.aged(model.moment().elapsed);
        lines.extend(plain(&format!(
            "It is {} now; {}",
            status::state_word(&d),
            notes(&d)
        )));
        lines.extend(plain(&dialog.action.effect(&d)));
    }
    lines.push(Line::raw(""));
    for field in dialog.fields() {
        let (what, text) = match field {
            Field::Reason => ("Why", &dialog.reason),
            Field::Lasts => (
                "For how long (1s to 24h; nothing: until it is released)",
                &dialog.lasts,
            ),
            Field::Name => ("Until it is released: type its name", &dialog.name),
            Field::Sure | Field::Sent => continue,
        };
        let here = dialog.at == field;
        let mark = if here { "▏" } else { "" };
        // The end of what is typed stays in sight.
        let all = wrap(&format!("{what}: {text}{mark}"), width);
        let from = all.len().saturating_sub(3);
        let style = if here { bold } else { Style::default() };
        lines.extend(
            all.into_iter()
                .skip(from)
                .map(|line| Line::styled(line, style)),
        );
    }
    lines.push(Line::raw(""));
    if let Some(problem) = &dialog.problem {
        let bad = style(model.ink, Tone::Bad);
        lines.extend(
            wrap(problem, width)
                .into_iter()
                .map(|line| Line::styled(line, bad)),
        );
    }
    lines.extend(plain(match dialog.at {
        Field::Reason | Field::Lasts | Field::Name => "Enter next   Up back   Esc leave it",
        Field::Sure => "Do it?   y yes   n no   Up back",
        Field::Sent => "Sent; waiting for the answer…",
    }));
    lines
}

/// A box in the middle. Where it does not fit, its end is what is seen.
fn boxed(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>) {
    let width = area.width.min(80);
    let inside = usize::from(width) - 4;
    let room = usize::from(area.height) - 3;
    let height = lines.len().min(room);
    let (x, y) = (
        (area.width - width) / 2,
        (area.height - height as u16 - 2) / 2,
    );
    let at = Rect {
        x: area.x + x,
        y: area.y + y,
        width,
        height: height as u16 + 2,
    };
    let head = match title {
        "" => String::new(),
        title => format!(" {title} "),
    };
    let edge = "─".repeat(inside + 2 - cells(&head));
    put(frame, at, 0, Line::raw(format!("┌{head}{edge}┐")));
    for (y, line) in lines.iter().skip(lines.len() - height).enumerate() {
        let blank = format!("│{}│", " ".repeat(inside + 2));
        put(frame, at, 1 + y as u16, Line::raw(blank));
        let inner = Rect {
            x: at.x + 2,
            width: inside as u16,
            ..at
        };
        put(frame, inner, 1 + y as u16, line.clone());
    }
    put(
        frame,
        at,
        height as u16 + 1,
        Line::raw(format!("└{}┘", "─".repeat(inside + 2))),
    );
}
