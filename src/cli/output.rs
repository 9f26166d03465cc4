//! What all commands print with: the two formats, colour, tables, and protobuf's JSON
//! mapping. Pure, but for [`stream()`], the one place that writes to standard output.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use comfy_table::{ContentArrangement, Table, presets};
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::escape::escape_json;
use crate::proto;

/// How soon it is seen that nobody reads any more what goes on.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How answers are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: protobuf's JSON mapping, as over HTTP.
    Json,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Plain,
    Coloured,
}

/// What a colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Watch,
    Bad,
    Quiet,
    Neutral,
}

impl Ink {
    pub fn choose(choice: ColourChoice) -> Self {
        let plain = match choice {
            ColourChoice::Always => false,
            ColourChoice::Never => true,
            ColourChoice::Auto => {
                let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                no_color || dumb || !io::stdout().is_terminal()
            }
        };
        if plain { Self::Plain } else { Self::Coloured }
    }

    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Watch => "33",
            Tone::Bad => "31",
            Tone::Quiet => "2",
            Tone::Neutral => return text.to_owned(),
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Columns under headings, without lines. Each row has a tone.
pub fn table(ink: Ink, headings: &[&str], rows: Vec<(Tone, Vec<String>)>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings.to_vec());
    let mut tones = vec![Tone::Quiet];
    for (tone, cells) in rows {
        tones.push(tone);
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    let painted = text
        .lines()
        .zip(tones)
        .map(|(line, tone)| ink.paint(tone, line.trim_end()));
    painted.fold(String::new(), |out, line| out + &line + "\n")
}

/// `name: value` lines, the values below each other. Empty values are left out.
pub fn card(pairs: &[(&str, String)]) -> String {
    let shown = pairs.iter().filter(|(_, value)| !value.is_empty());
    let width = shown.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    shown.fold(String::new(), |out, (name, value)| {
        out + &format!("  {name:<width$}  {value}\n")
    })
}

/// A message of the contract in protobuf's JSON mapping; every field is there, so that a
/// program need not know the defaults.
pub fn json<M: Message>(name: &str, message: &M) -> String {
    pretty(&proto::json::value(name, message))
}

/// [`json`] on one line, for streams.
pub fn json_line<M: Message>(name: &str, message: &M) -> String {
    let text = serde_json::to_string(&proto::json::value(name, message)).unwrap_or_default();
    escape_json(&text).into_owned() + "\n"
}

/// Any other value as JSON.
pub fn pretty<S: Serialize>(value: &S) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    escape_json(&text).into_owned() + "\n"
}

/// Whoever reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reader {
    There,
    Gone,
}

/// Writes to standard output. A reader that went away is no error: `holdoff … | head`. Where
/// nothing can be written (a full disk) the process ends: an answer that is lost is no answer.
pub fn print(text: &str) {
    let _ = stream(text);
}

/// As [`print`], for what goes on until its reader has gone.
pub fn stream(text: &str) -> Reader {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Reader::There,
        Err(gone) if gone.kind() == io::ErrorKind::BrokenPipe => Reader::Gone,
        Err(cause) => {
            eprintln!("holdoff: cannot write to standard output: {cause}");
            std::process::exit(1);
        }
    }
}

/// Until the reader of standard output has gone, which is seen although nothing is written. For
/// ever where that is a file or a terminal.
pub async fn unread() {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let out = io::stdout();
        let mut polled = [PollFd::new(&out, PollFlags::empty())];
        let seen = poll(&mut polled, Some(&Timespec::default()));
        // These are told unasked.
        let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        if seen.is_ok() && polled.iter().any(|it| it.revents().intersects(gone)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_lines_and_no_trailing_blanks() {
        let rows = vec![
            (Tone::Bad, vec!["payments".to_owned(), "open".to_owned()]),
            (Tone::Good, vec!["x".to_owned(), "closed".to_owned()]),
        ];
        assert_eq!(
            table(Ink::Plain, &["NAME", "STATE"], rows.clone()),
            "NAME      STATE\npayments  open\nx         closed\n"
        );
        let coloured = table(Ink::Coloured, &["NAME", "STATE"], rows);
        assert!(
            coloured.contains("\u{1b}[31mpayments  open\u{1b}[0m\n"),
            "{coloured:?}"
        );
    }
}
