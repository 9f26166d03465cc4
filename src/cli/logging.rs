//! Log lines of the service: to standard error, since standard output says where it listens.
//!
//! `RUST_LOG` chooses them (`info` unless it says otherwise). Nothing is logged a request.
//!
//! What is logged has texts of others in it (why an operator acted, what an instance calls
//! itself). An event is one line whatever they say, and steers no terminal.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use super::{
    escape::{escape, escape_json},
    exit::Failure,
};
use crate::settings::LogFormat;

const VARIABLE: &str = "RUST_LOG";

/// Begins to log. In a process that logs already (a test's) nothing changes.
///
/// # Errors
/// [`Failure::Usage`] where `RUST_LOG` is no filter.
pub fn begin(format: LogFormat) -> Result<(), Failure> {
    let is_coloured = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(std::env::var(VARIABLE).ok())?)
        .with_writer(Lines {
            format,
            is_coloured,
        })
        .with_ansi(is_coloured);
    let begun = match format {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    // Somebody else was first, and has the lines.
    drop(begun);
    Ok(())
}

/// Writes one event at a time, each as one line.
#[derive(Clone, Copy, Debug)]
struct Lines {
    format: LogFormat,
    is_coloured: bool,
}

impl Lines {
    fn clean(self, event: &str) -> Cow<'_, str> {
        match self.format {
            LogFormat::Json => escape_json(event),
            // Colours are the formatter's own: it lets no escape of others through.
            LogFormat::Text if self.is_coloured => {
                let parts: Vec<_> = event.split('\u{1b}').map(escape).collect();
                parts.join("\u{1b}").into()
            }
            LogFormat::Text => escape(event),
        }
    }
}

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = self.clean(text.strip_suffix('\n').unwrap_or(&text));
        // One call, so that lines of several threads do not run into each other.
        io::stderr().write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

fn filter(written: Option<String>) -> Result<EnvFilter, Failure> {
    let written = written.filter(|text| !text.trim().is_empty());
    let written = written.unwrap_or_else(|| "info".to_owned());
    EnvFilter::try_new(&written).map_err(|error| {
        Failure::Usage(format!(
            "{VARIABLE}={written}: {error}; it looks like `info`, `debug` or `holdoff=debug,warn`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_is_written_in_it() {
        let event = "INFO why: x\n2026-01-01 INFO forged\r\u{9b}2J\u{202e}y";
        let clean = |format, is_coloured, event: &str| {
            let lines = Lines {
                format,
                is_coloured,
            };
            lines.clean(event).into_owned()
        };
        let line = r"INFO why: x\n2026-01-01 INFO forged\r\u{9b}2J\u{202e}y";
        assert_eq!(clean(LogFormat::Text, false, event), line);
        let coloured = format!("\u{1b}[32m{event}\u{1b}[0m");
        let line = format!("\u{1b}[32m{line}\u{1b}[0m");
        assert_eq!(clean(LogFormat::Text, true, &coloured), line);
        let json = "{\"why\":\"\u{202e}y\"}";
        assert_eq!(clean(LogFormat::Json, false, json), r#"{"why":"\u202ey"}"#);
    }

    #[test]
    fn what_is_no_filter_is_refused_with_the_variable_and_its_value() {
        for good in [None, Some(""), Some("warn"), Some("holdoff=debug,h2=off")] {
            assert!(filter(good.map(str::to_owned)).is_ok(), "{good:?}");
        }
        let Err(Failure::Usage(text)) = filter(Some("holdoff=loud".into())) else {
            panic!("it was taken");
        };
        assert!(text.starts_with("RUST_LOG=holdoff=loud: "), "{text}");
    }
}
