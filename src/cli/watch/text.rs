//! Texts that fit: cut to so many cells, nothing in them that a terminal would obey.

use std::borrow::Cow;

use ratatui::symbols::bar::NINE_LEVELS;
use unicode_width::UnicodeWidthChar;

use crate::cli::escape::escape;

/// Cut to at most `width` cells, with `…` where something is missing.
pub fn cut(text: &str, width: usize) -> String {
    let text = escape(text);
    if cells(&text) <= width {
        return text.into_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        out.push(c);
        used += wide;
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// [`cut`], and filled up with blanks.
pub fn fit(text: &str, width: usize) -> String {
    let mut text = cut(text, width);
    let blanks = width.saturating_sub(cells(&text));
    text.extend(std::iter::repeat_n(' ', blanks));
    text
}

/// [`fit`], at the right.
pub fn right(text: &str, width: usize) -> String {
    let text = cut(text, width);
    " ".repeat(width.saturating_sub(cells(&text))) + &text
}

/// In lines of at most `width` cells, broken at blanks where there are some.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let text: Cow<'_, str> = escape(text);
    let width = width.max(4);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let mut word = word.to_owned();
        if !line.is_empty() && cells(&line) + 1 + cells(&word) > width {
            lines.push(std::mem::take(&mut line));
        }
        while cells(&word) > width {
            let (head, tail) = split(&word, width);
            lines.push(head);
            word = tail;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

fn split(word: &str, width: usize) -> (String, String) {
    let mut used = 0;
    let at = word.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    let (head, tail) = word.split_at(at.map_or(word.len(), |(at, _)| at));
    (head.to_owned(), tail.to_owned())
}

pub fn cells(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The newest of them as bars of nine heights, the largest as high as can be.
pub fn bars(values: &[f64], width: usize) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let bars = [
        NINE_LEVELS.empty,
        NINE_LEVELS.one_eighth,
        NINE_LEVELS.one_quarter,
        NINE_LEVELS.three_eighths,
        NINE_LEVELS.half,
        NINE_LEVELS.five_eighths,
        NINE_LEVELS.three_quarters,
        NINE_LEVELS.seven_eighths,
        NINE_LEVELS.full,
    ];
    let bar = |value: &f64| match most > 0.0 {
        // Above nothing is at least a trace.
        true => bars[(value / most * 8.0).ceil().clamp(0.0, 8.0) as usize],
        false => bars[0],
    };
    shown.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_never_takes_more_cells_than_it_is_given() {
        for text in [
            "payments",
            "",
            "支払い",
            "a\u{1b}[2Jb",
            "e\u{301}e\u{301}e\u{301}",
        ] {
            for width in 0..12 {
                assert!(cells(&cut(text, width)) <= width, "{text:?} {width}");
                assert_eq!(cells(&fit(text, width)), width, "{text:?} {width}");
                assert!(
                    wrap(text, width)
                        .iter()
                        .all(|line| cells(line) <= width.max(4))
                );
            }
        }
        assert_eq!(cut("payments", 5), "paym…");
        assert_eq!(
            wrap("12 of 20 calls failed", 9),
            ["12 of 20", "calls", "failed"]
        );
    }

    #[test]
    fn bars_are_as_high_as_the_largest_of_them() {
        assert_eq!(bars(&[9.0, 0.0, 0.1, 4.0, 8.0], 4), " ▁▄█");
        assert_eq!(bars(&[0.0], 4), " ");
    }
}
