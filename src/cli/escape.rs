//! Makes text from elsewhere fit for a terminal. Names and details come from callers and
//! policies; raw, they could move the cursor, forge a line of the output, or reorder it.
//! Output of commands that `exec` runs is passed on untouched: it is theirs.

use std::{borrow::Cow, fmt::Write};

/// One line: control characters, line ends and invisible reordering become `\u{…}`.
pub fn escape(text: &str) -> Cow<'_, str> {
    replace(text, is_unprintable, |out, c| match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    })
}

/// A document: as [`escape`], but its line ends stay.
pub fn escape_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(escape).collect();
    lines.join("\n")
}

/// JSON text: what the terminal must not see becomes a JSON escape, which reads back as
/// the same value. Line ends between tokens stay; inside of strings there are none left.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    replace(
        json,
        |c| c != '\n' && is_unprintable(c),
        |out, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

fn replace(
    text: &str,
    unprintable: impl Fn(char) -> bool,
    write: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.contains(&unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if unprintable(c) {
            write(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// C0, DEL, C1, line and paragraph separators, marks that set the direction of text,
/// characters of no width, and tags.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_or_direction_character_survives() {
        let hostile = "a\u{1b}[31mb\r\n\tc\u{9b}d\u{202e}e\u{2066}f\u{7f}\u{200b}\u{2028}";
        for text in [
            escape(hostile),
            escape_json(hostile).replace('\n', "").into(),
        ] {
            assert!(!text.contains(is_unprintable), "{text:?}");
        }
        assert_eq!(
            escape(hostile),
            "a\\u{1b}[31mb\\r\\n\\tc\\u{9b}d\\u{202e}e\\u{2066}f\\u{7f}\\u{200b}\\u{2028}"
        );
    }

    #[test]
    fn plain_text_is_left_alone() {
        let text = "paiements/été: 3 of 5 → open";
        assert!(matches!(escape(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn escaped_json_reads_back_as_the_same_value() {
        let value = serde_json::json!({"k": "x\u{202e}y\u{9b}\u{e0001}\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = escape_json(&text);
        assert!(!escaped.replace('\n', "").contains(is_unprintable));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
            value
        );
    }

    #[test]
    fn a_document_keeps_its_lines() {
        assert_eq!(escape_lines("a: 1\nb: \u{1b}2\n"), "a: 1\nb: \\u{1b}2");
    }
}
