//! Draws the model: pure. Only what is on the screen is put together, so ten thousand
//! dependencies cost what forty do. A state is a word, a shape and a colour, never colour alone.

use holdoff_client::proto::BreakerState;
use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::{
    boxes, list,
    model::{Filter, Link, Model, Over},
    page,
    text::{cells, cut, fit},
};
use crate::cli::{
    output::{Ink, Tone},
    words,
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
    "FAILED with *   of the calls that opened it, as it is not closed",
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
        None => list::list(model, frame, area),
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
            boxes::boxed(frame, area, "Keys", lines);
        }
        Over::Dialog(dialog) => {
            let inside = usize::from(area.width.min(76)) - 4;
            boxes::boxed(frame, area, "", boxes::asked(model, dialog, inside));
        }
    }
}

pub fn put(frame: &mut Frame<'_>, area: Rect, y: u16, line: Line<'_>) {
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
