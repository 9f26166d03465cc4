//! Where the demo is shown: one screen that is drawn again on a terminal, one line for each sentence
//! elsewhere, one JSON object for each with `--output json`.

use std::io::{self, IsTerminal};

use serde_json::json;

use super::{
    super::{
        Context,
        output::{self, Format, Ink},
    },
    hosted::Hosted,
    screen::{self, Shown, TOLD},
    story::{Lesson, Story, Told},
};

/// Clear; no cursor; lines that are too long are cut.
const BEGIN: &str = "\u{1b}[2J\u{1b}[?25l\u{1b}[?7l";
const END: &str = "\u{1b}[?7h\u{1b}[?25h";
const HOME: &str = "\u{1b}[H";
const REST_OF_LINE: &str = "\u{1b}[K";
const REST_OF_SCREEN: &str = "\u{1b}[J";

/// Of a terminal that does not say how many it has.
const ROWS: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Screen,
    Lines,
    Json,
}

/// See the module. A terminal is as it was when this is dropped.
#[derive(Debug)]
pub struct Stage {
    manner: Manner,
    ink: Ink,
    told: Vec<Told>,
}

impl Stage {
    pub fn new(context: &Context, hosted: &Hosted) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let manner = match context.format {
            Format::Json => Manner::Json,
            Format::Table if io::stdout().is_terminal() && !is_dumb => Manner::Screen,
            Format::Table => Manner::Lines,
        };
        match manner {
            Manner::Screen => output::print(BEGIN),
            Manner::Lines => {
                let mut text = format!("holdoff: gRPC on {}\n", hosted.grpc);
                if let Some(http) = hosted.http {
                    text.push_str(&format!("holdoff: HTTP on {http}\n"));
                    text.push_str(&format!("holdoff: dashboard at http://{http}/\n"));
                }
                output::print(&text);
            }
            Manner::Json => print_json(&json!({
                "grpc": hosted.grpc.to_string(),
                "http": hosted.http.map(|at| at.to_string()),
            })),
        }
        Self {
            manner,
            ink: context.ink,
            told: Vec::new(),
        }
    }

    pub fn tell(&mut self, told: Told) {
        match self.manner {
            Manner::Screen => {}
            Manner::Lines => output::print(&screen::sentence(self.ink, &told)),
            Manner::Json => {
                print_json(&json!({"at_ms": told.at.as_millis() as u64, "text": told.text}));
            }
        }
        self.told.push(told);
        let old = self.told.len().saturating_sub(TOLD);
        self.told.drain(..old);
    }

    /// The sentences that are still shown.
    pub fn told(&self) -> &[Told] {
        &self.told
    }

    /// Of the terminal, as it is now.
    pub fn rows(&self) -> usize {
        crossterm::terminal::size().map_or(ROWS, |(_, rows)| rows.into())
    }

    pub fn draw(&self, shown: &Shown<'_>) {
        if self.manner != Manner::Screen {
            return;
        }
        let text = screen::screen(self.ink, shown);
        let lines = text.lines();
        let drawn = lines.fold(HOME.to_owned(), |out, line| {
            out + line + REST_OF_LINE + "\n"
        });
        output::print(&(drawn + REST_OF_SCREEN));
    }

    /// The last word.
    pub fn end(self, story: &Story) {
        let unseen = story.unseen();
        let text = match unseen.is_empty() {
            true => "Seen: trip, refusal, probe, ramp, hold, calendar.\n".to_owned(),
            false => format!("Not seen in this time: {}.\n", unseen.join(", ")),
        };
        match self.manner {
            Manner::Screen | Manner::Lines => output::print(&text),
            Manner::Json => {
                let seen = Lesson::ALL.into_iter();
                let seen: Vec<_> = seen.filter(|lesson| story.seen.contains(lesson)).collect();
                print_json(&json!({"seen": seen, "unseen": unseen}));
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.manner == Manner::Screen {
            output::print(END);
        }
    }
}

fn print_json(value: &serde_json::Value) {
    output::print(&format!("{value}\n"));
}
