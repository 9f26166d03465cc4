//! Log lines of the service: to standard error, since standard output says where it listens.
//!
//! `RUST_LOG` chooses them (`info` unless it says otherwise). Nothing is logged a request.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use super::exit::Failure;
use crate::settings::LogFormat;

const VARIABLE: &str = "RUST_LOG";

/// Begins to log. In a process that logs already (a test's) nothing changes.
///
/// # Errors
/// [`Failure::Usage`] where `RUST_LOG` is no filter.
pub fn begin(format: LogFormat) -> Result<(), Failure> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(std::env::var(VARIABLE).ok())?)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let begun = match format {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    // Somebody else was first, and has the lines.
    drop(begun);
    Ok(())
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
