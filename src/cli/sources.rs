//! Where a setting comes from: a flag, else the environment, else the settings file, else
//! the default. All three say the same things under the same names: `--data-dir`,
//! `HOLDOFF_DATA_DIR`, `data-dir:`.
//!
//! The file's values become the parser's defaults, so the order of precedence, the checks
//! and the messages are the parser's own, and are the same for all three. A library that
//! merges sources by a prefix of the environment was not taken: in Kubernetes a Service
//! named `holdoff` puts `HOLDOFF_PORT=tcp://…` into every pod, and such a library reads it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, Command, builder::FalseyValueParser};
use serde::Deserialize;

use super::exit::Failure;

/// Variables that Kubernetes sets for a Service of our name. They are never ours.
const TAKEN: [&str; 2] = ["HOLDOFF_PORT", "HOLDOFF_SERVICE_HOST"];

/// One value of a settings file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    /// The settings of one command, under its name.
    Section(BTreeMap<String, Value>),
}

/// Gives every flag its environment variable, which `--help` then shows. A switch is on
/// for whatever does not say off: `HOLDOFF_INSECURE=1`.
pub fn with_environment(command: Command) -> Command {
    let mut command = command.mut_args(|arg| {
        let arg = match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(FalseyValueParser::new()),
            _ => arg,
        };
        let Some(name) = arg.get_long().map(variable) else {
            return arg;
        };
        let arg = match arg.get_env() {
            None if !TAKEN.contains(&name.as_str()) => arg.env(name),
            None | Some(_) => arg,
        };
        arg.hide_env_values(true)
    });
    for name in names(&command) {
        command = command.mut_subcommand(name, with_environment);
    }
    command
}

/// `data-dir` is `HOLDOFF_DATA_DIR`.
fn variable(long: &str) -> String {
    format!("HOLDOFF_{}", long.to_uppercase().replace('-', "_"))
}

/// The settings file that the command line, else the environment, names.
pub fn settings_path(args: &[OsString]) -> Option<PathBuf> {
    let mut args = args.iter().skip(1);
    while let Some(arg) = args.next() {
        match arg.to_str() {
            // What follows belongs to the command that `exec` runs.
            Some("--") => break,
            Some("--settings") => return args.next().map(PathBuf::from),
            Some(text) => {
                if let Some(path) = text.strip_prefix("--settings=") {
                    return Some(PathBuf::from(path));
                }
            }
            None => {}
        }
    }
    std::env::var_os("HOLDOFF_SETTINGS")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Reads a settings file.
///
/// # Errors
/// [`Failure::Usage`], with the file and what is wrong in it.
pub fn read(path: &Path) -> Result<BTreeMap<String, Value>, Failure> {
    let refuse = |why: String| Failure::Usage(format!("settings file {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let only_comments = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
    if text.lines().all(only_comments) {
        return Ok(BTreeMap::new());
    }
    parse(&text).map_err(refuse)
}

/// Values are what was written: `off` is a word and `007` is no number, since every value
/// is read by its flag.
///
/// # Errors
/// What is no YAML, with its place.
pub fn parse(text: &str) -> Result<BTreeMap<String, Value>, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        null_as_string: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// Puts the file's values below flags and environment, and above the defaults.
///
/// # Errors
/// [`Failure::Usage`] for a name that is no flag, or a value that is none.
pub fn with_settings(
    command: Command,
    path: &Path,
    values: BTreeMap<String, Value>,
) -> Result<Command, Failure> {
    apply(command, values)
        .map_err(|why| Failure::Usage(format!("settings file {}: {why}", path.display())))
}

/// Sections last: what a command's own section says wins over what all are told.
fn apply(mut command: Command, values: BTreeMap<String, Value>) -> Result<Command, String> {
    let (sections, flags): (Vec<_>, Vec<_>) = values
        .into_iter()
        .partition(|(_, value)| matches!(value, Value::Section(_)));
    for (name, value) in flags {
        if !knows(&command, &name) {
            return Err(format!(
                "{name}: no setting has this name; it is a flag's without --"
            ));
        }
        command = set(command, &name, &texts(&name, value)?);
    }
    for (name, value) in sections {
        let Value::Section(values) = value else {
            continue;
        };
        if command.find_subcommand(&name).is_none() {
            return Err(format!("{name}: no command has this name"));
        }
        let mut outcome = Ok(());
        command = command.mut_subcommand(&name, |inner| {
            let untouched = inner.clone();
            apply(inner, values).unwrap_or_else(|why| {
                outcome = Err(format!("{name}.{why}"));
                untouched
            })
        });
        outcome?;
    }
    Ok(command)
}

/// A value at the top speaks to all commands, but not to those inside of another command:
/// what `serve` is told of its policies is not what `policy show` should read.
fn knows(command: &Command, long: &str) -> bool {
    let has = |command: &Command| {
        command
            .get_arguments()
            .any(|arg| arg.get_long() == Some(long))
    };
    settable(long) && (has(command) || command.get_subcommands().any(has))
}

/// `--settings` names the file itself, the others only print.
fn settable(long: &str) -> bool {
    !["settings", "help", "version"].contains(&long)
}

fn set(command: Command, long: &str, values: &[String]) -> Command {
    let set_here = |command: Command| {
        command.mut_args(|arg| {
            if arg.get_long() == Some(long) {
                with_default(arg, values)
            } else {
                arg
            }
        })
    };
    let mut command = set_here(command);
    for name in names(&command) {
        command = command.mut_subcommand(name, set_here);
    }
    command
}

fn with_default(arg: Arg, values: &[String]) -> Arg {
    arg.required(false).default_values(values.to_vec())
}

fn names(command: &Command) -> Vec<String> {
    command
        .get_subcommands()
        .map(|inner| inner.get_name().to_owned())
        .collect()
}

fn texts(name: &str, value: Value) -> Result<Vec<String>, String> {
    Ok(match value {
        Value::Flag(flag) => vec![flag.to_string()],
        Value::Whole(number) => vec![number.to_string()],
        Value::Number(number) => vec![number.to_string()],
        Value::Text(text) => vec![text],
        Value::List(items) => {
            let mut all = Vec::new();
            for item in items {
                all.extend(texts(name, item)?);
            }
            all
        }
        Value::Section(_) => return Err(format!("{name}: must be a value or a list of values")),
    })
}
