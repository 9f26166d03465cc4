//! `holdoff replay`: runs a recording through a candidate policy and prints the two side by
//! side. Needs no service.

use std::path::PathBuf;

use clap::Args;
use holdoff_client::proto;
use holdoff_decision::Time;
use prost::Message;
use serde::Serialize;

use super::{
    Context, comparison,
    escape::escape,
    exit::{Exit, Failure},
    output::{self, Format, Ink, Tone},
    span,
};
use crate::{
    candidate::Numbers,
    clock,
    policy::{self, PolicySet},
    replay::{Replayed, Selection, replay},
};

const EXAMPLES: &str = "\
Examples:
  holdoff replay --recording /var/lib/holdoff/recording --policies candidate.yaml
  holdoff replay --recording recording --policies candidate.yaml --dependency payments
  holdoff replay --recording recording --policies candidate.yaml --since 30m --output json

A recording is what `holdoff serve --record DIR` writes. What cannot be known from it is how calls \
would have ended that were never made.

Exit codes: 0 printed, 1 the recording cannot be read, has nothing of this, or the policies are \
refused; 2 wrong use.";

/// Runs a recording through a candidate policy: what it would have done, side by side.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    /// The folder that `serve --record` wrote into
    #[arg(long, value_name = "DIR")]
    recording: PathBuf,
    /// The candidate: a policy file or a folder of them, as for `serve`
    #[arg(long, value_name = "PATH", env = "HOLDOFF_POLICY_FILES")]
    policies: PathBuf,
    /// Only of this dependency
    #[arg(long)]
    dependency: Option<String>,
    /// Count from then on (RFC 3339), or only the last so long of the recording (30m)
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment)]
    since: Option<Moment>,
    /// Up to then (RFC 3339), or up to so long before the end of the recording
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment)]
    until: Option<Moment>,
}

/// A time, or a span before the end of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    At(Time),
    Before(std::time::Duration),
}

/// What was left out, and what else a reader must know.
#[derive(Debug, Serialize)]
struct Said {
    since: Option<String>,
    until: Option<String>,
    happenings: u64,
    rerun: Rerun,
    left_out: u64,
    damage: Vec<Damaged>,
    all: serde_json::Value,
    dependencies: Vec<Named>,
}

/// How well a rerun of the live policy follows what was recorded.
#[derive(Debug, Serialize)]
struct Rerun {
    answers: u64,
    unlike: u64,
}

#[derive(Debug, Serialize)]
struct Damaged {
    file: String,
    offset: u64,
    problem: String,
}

#[derive(Debug, Serialize)]
struct Named {
    dependency: String,
    comparison: serde_json::Value,
}

/// # Errors
/// [`Failure::No`] where the recording or the policies cannot be used.
pub fn run(context: &Context, args: ReplayArgs) -> Result<Exit, Failure> {
    let set = load(&args)?;
    let read = |selection: &Selection| {
        let replayed = replay(&args.recording, &set, selection);
        replayed.map_err(|error| Failure::No(error.to_string()))
    };
    let mut selection = Selection {
        namespace: context.namespace.clone(),
        dependency: args.dependency.clone(),
        ..Selection::default()
    };
    let spans = [args.since, args.until].into_iter().flatten();
    let end = match spans.clone().any(|it| matches!(it, Moment::Before(_))) {
        true => read(&selection)?.last,
        false => Time::ORIGIN,
    };
    selection.since = args.since.map(|moment| moment.before(end));
    selection.until = args.until.map(|moment| moment.before(end));
    let replayed = read(&selection)?;
    if replayed.dependencies.is_empty() {
        return Err(nothing(&args, context, &replayed));
    }
    output::print(&match context.format {
        Format::Json => output::pretty(&said(&replayed)),
        Format::Table => table(context.ink, &replayed),
    });
    Ok(Exit::Done)
}

fn load(args: &ReplayArgs) -> Result<PolicySet, Failure> {
    let refused = |findings: Vec<policy::Finding>| {
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Failure::No(format!("the policies are refused:\n{}", lines.join("\n")))
    };
    let sources = policy::files::read(&args.policies).map_err(refused)?;
    PolicySet::load(&sources, &[]).map_err(refused)
}

fn nothing(args: &ReplayArgs, context: &Context, replayed: &Replayed) -> Failure {
    let mut text = format!(
        "{}: nothing recorded of namespace {}",
        args.recording.display(),
        context.namespace
    );
    if let Some(dependency) = &args.dependency {
        text += &format!(", dependency {}", escape(dependency));
    }
    if args.since.is_some() || args.until.is_some() {
        text += ", in that time";
    }
    for line in damage(replayed) {
        text += &format!("\n{line}");
    }
    Failure::No(text)
}

fn message(numbers: &Numbers) -> proto::Comparison {
    let written = crate::comparison::comparison(numbers).encode_to_vec();
    // The two crates have the same contract, each as types of its own.
    proto::Comparison::decode(written.as_slice()).unwrap_or_default()
}

fn said(replayed: &Replayed) -> Said {
    let value = |numbers| crate::proto::json::value("Comparison", &message(numbers));
    let time = |at: Time| (at != Time::ORIGIN).then(|| wall(at));
    Said {
        since: time(replayed.first),
        until: time(replayed.last),
        happenings: replayed.happenings,
        rerun: Rerun {
            answers: replayed.answers,
            unlike: replayed.unlike,
        },
        left_out: replayed.lost,
        damage: replayed
            .damage
            .iter()
            .map(|damage| Damaged {
                file: damage.file.display().to_string(),
                offset: damage.offset,
                problem: damage.problem.clone(),
            })
            .collect(),
        all: value(&replayed.all),
        dependencies: replayed
            .dependencies
            .iter()
            .map(|((_, name), numbers)| Named {
                dependency: name.clone(),
                comparison: value(numbers),
            })
            .collect(),
    }
}

fn table(ink: Ink, replayed: &Replayed) -> String {
    let mut text = format!(
        "{} happenings, {} to {}\n",
        replayed.happenings,
        wall(replayed.first),
        wall(replayed.last)
    );
    for line in damage(replayed) {
        text += &(ink.paint(Tone::Watch, &line) + "\n");
    }
    let several = replayed.dependencies.len() > 1;
    if several {
        text += "\nall dependencies\n";
        text += &comparison::compared(ink, &message(&replayed.all));
    }
    for ((_, name), numbers) in &replayed.dependencies {
        text += &format!("\n{}\n", escape(name));
        text += &comparison::compared(ink, &message(numbers));
    }
    text
}

/// What a reader must know before believing the numbers.
fn damage(replayed: &Replayed) -> Vec<String> {
    let damaged = replayed.damage.iter().map(|damage| {
        format!(
            "{}: from byte {} on it is not used: {}",
            damage.file.display(),
            damage.offset,
            damage.problem
        )
    });
    let mut lines: Vec<String> = damaged.collect();
    if replayed.lost > 0 {
        lines.push(format!(
            "{} happenings are missing: the disk was full, failed, or was slower than the fleet",
            replayed.lost
        ));
    }
    if replayed.unlike > 0 {
        lines.push(format!(
            "{} of {} answers come out otherwise when the live policy is run again: the recording \
             begins in the middle or something is missing in it",
            replayed.unlike, replayed.answers
        ));
    }
    lines
}

fn wall(at: Time) -> String {
    let at = jiff::Timestamp::try_from(clock::to_wall(at));
    at.map_or_else(
        |_| "-".to_owned(),
        |at| at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    )
}

fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        let nanos = u64::try_from(at.as_nanosecond()).unwrap_or_default();
        return Ok(Moment::At(Time(nanos)));
    }
    span::parse(text).map(Moment::Before).map_err(|_| {
        "is neither a time such as 2026-11-30T10:00:00Z nor a duration such as 30m".to_owned()
    })
}

impl Moment {
    fn before(self, end: Time) -> Time {
        match self {
            Self::At(at) => at,
            Self::Before(span) => {
                let back = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
                Time(end.0.saturating_sub(back))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_or_a_span_before_the_end() {
        let second = Time(1_764_496_800_000_000_000);
        assert_eq!(moment("2025-11-30T10:00:00Z"), Ok(Moment::At(second)));
        let half = moment("30m").unwrap();
        assert_eq!(half.before(second), Time(second.0 - 1_800_000_000_000));
        assert!(moment("yesterday").is_err());
    }
}
