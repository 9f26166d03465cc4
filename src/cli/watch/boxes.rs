//! What lies in a box over the screen: help, and what is asked before anything is done.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Modifier, Style},
    text::Line,
};

use super::{
    dialog::{Dialog, Field},
    list::notes,
    model::Model,
    text::{cells, wrap},
    view::{put, style},
};
use crate::cli::{output::Tone, status};

pub fn asked(model: &Model, dialog: &Dialog, width: usize) -> Vec<Line<'static>> {
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
pub fn boxed(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>) {
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
