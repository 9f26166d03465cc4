//! `holdoff simulate`: what a policy would do to a fleet and its dependency, beside what clients
//! do today. Needs no service. The simulator is `holdoff_simulate`; here are its scenarios, the
//! policy, which is read as everywhere, and what is printed.

use std::{io::IsTerminal, path::PathBuf, time::Instant};

use clap::Args;
use holdoff_simulate::{Progress, Results, Strategy, report, run::Plan};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    Context,
    exit::{Exit, Failure},
    output::{self, Format},
};

mod policy;
mod render;
mod scenario;
mod shipped;
#[cfg(test)]
mod tests;

const EXAMPLES: &str = "\
Examples:
  holdoff simulate --list
  holdoff simulate --scenario outage
  holdoff simulate --scenario herd --clients 10000 --strategy full_jitter,holdoff --seeds 5
  holdoff simulate --scenario storm --policies policies.yaml --dependency payments
  holdoff simulate --scenario mine.yaml --set operation.max_attempts=5 --report out.html
  holdoff simulate --show herd > mine.yaml

Where the scenario has assertions, each is printed with the value found.

Exit codes: 0 done, and every assertion holds; 1 one does not; 2 wrong use, or a scenario or policy that \
cannot be read.";

/// A variable of its own: a plain `simulate` shows the scenario's published figures wherever
/// `HOLDOFF_POLICY_FILES` is set for `policy check`.
const VARIABLE: &str = "HOLDOFF_SIMULATE_POLICIES";

/// A run that takes longer than this is shown to go on.
const BAR_AFTER_MS: u128 = 500;
const BAR_STEPS: u64 = 1_000;

/// Simulates a fleet under a policy, beside other strategies.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    /// A shipped scenario by its name, or a file
    #[arg(long, value_name = "NAME|FILE", required_unless_present_any = ["list", "show"])]
    scenario: Option<String>,
    /// List the shipped scenarios
    #[arg(long, conflicts_with_all = ["scenario", "show"])]
    list: bool,
    /// Print a shipped scenario, to begin one's own with
    #[arg(long, value_name = "NAME", conflicts_with = "scenario")]
    show: Option<String>,
    /// The policy of holdoff, from a policy file or a folder of them; without it, the scenario's
    #[arg(long, value_name = "PATH", env = VARIABLE)]
    policies: Option<PathBuf>,
    /// Whose policy, in --namespace; without it, the namespace's defaults
    #[arg(long, value_name = "NAME", requires = "policies")]
    dependency: Option<String>,
    /// The strategies to compare; without it, the scenario's, or all
    #[arg(long = "strategy", value_name = "NAME,…", value_delimiter = ',', value_parser = strategy)]
    strategies: Vec<Strategy>,
    /// How many clients, instead of the scenario's
    #[arg(long, value_name = "NUMBER")]
    clients: Option<u32>,
    /// Another value for a field of the scenario; may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// The same seed gives the same results
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Runs with so many seeds, one after the other: times are medians, counts are means
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    seeds: u32,
    /// Also writes the results as one HTML page with plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn strategy(name: &str) -> Result<Strategy, String> {
    Strategy::from_name(name).ok_or_else(|| {
        let known: Vec<_> = Strategy::ALL.iter().map(|it| it.name()).collect();
        format!("one of {}", known.join(", "))
    })
}

/// # Errors
/// What cannot be read, and where a report cannot be written.
pub fn run(context: &Context, args: &SimulateArgs) -> Result<Exit, Failure> {
    if let Some(name) = &args.show {
        output::print(shipped::text(name).ok_or_else(|| unknown(name))?);
        return Ok(Exit::Done);
    }
    let Some(named) = args.scenario.as_deref().filter(|_| !args.list) else {
        output::print(&list(context)?);
        return Ok(Exit::Done);
    };
    let scenario = scenario::read(named, args.clients, &args.set)?;
    let chosen = match &args.policies {
        Some(path) => policy::of_files(path, &context.namespace, args.dependency.as_deref())?,
        None => policy::of_scenario(&scenario)?,
    };
    let seeds: Vec<u64> = (0..u64::from(args.seeds))
        .map(|number| args.seed.wrapping_add(number))
        .collect();
    let bar = Bar::new();
    let plan = Plan {
        scenario: &scenario,
        strategies: &args.strategies,
        policy: &chosen.policy,
        seeds: &seeds,
        threads: std::thread::available_parallelism().map_or(1, Into::into),
    };
    let results = holdoff_simulate::run(&plan, &|progress| bar.show(progress));
    bar.end();
    let results = results.map_err(|invalid| scenario::refuse(named, &invalid))?;
    print(context, &results, &chosen.from);
    // The page comes last: what was found is not lost where it cannot be written.
    if let Some(path) = &args.report {
        let again = again(context, args, named);
        std::fs::write(path, report::html(&results, &chosen.from, &again))
            .map_err(|error| Failure::Usage(format!("--report {}: {error}", path.display())))?;
    }
    Ok(match results.all_hold() {
        true => Exit::Done,
        false => Exit::No,
    })
}

/// The command that finds the same: all that was said of it, wherever it was said.
fn again(context: &Context, args: &SimulateArgs, named: &str) -> Vec<String> {
    let strategies: Vec<_> = args.strategies.iter().map(|it| it.name()).collect();
    let flags = [
        ("--scenario", Some(named.to_owned())),
        (
            "--policies",
            args.policies
                .as_ref()
                .map(|path| path.display().to_string()),
        ),
        ("--dependency", args.dependency.clone()),
        (
            "--namespace",
            args.policies.is_some().then(|| context.namespace.clone()),
        ),
        (
            "--strategy",
            (!strategies.is_empty()).then(|| strategies.join(",")),
        ),
        ("--clients", args.clients.map(|clients| clients.to_string())),
    ];
    let sets = args.set.iter().map(|set| ("--set", Some(set.clone())));
    let seeds = [
        ("--seed", Some(args.seed.to_string())),
        ("--seeds", (args.seeds > 1).then(|| args.seeds.to_string())),
    ];
    let said = flags.into_iter().chain(sets).chain(seeds);
    let said = said.filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
    let words = ["holdoff", "simulate"].map(str::to_owned);
    words.into_iter().chain(said.flatten()).collect()
}

/// The results, and where the policy of `holdoff` is from.
#[derive(serde::Serialize)]
struct Shown<'a> {
    policy_from: &'a str,
    #[serde(flatten)]
    results: &'a Results,
}

fn print(context: &Context, results: &Results, policy_from: &str) {
    output::print(&match context.format {
        Format::Json => output::pretty(&Shown {
            policy_from,
            results,
        }),
        Format::Table => render::results(context.ink, results, policy_from),
    });
}

fn list(context: &Context) -> Result<String, Failure> {
    let mut scenarios = Vec::new();
    for name in shipped::names() {
        scenarios.push(scenario::read(name, None, &[])?);
    }
    Ok(match context.format {
        Format::Json => output::pretty(&scenarios),
        Format::Table => render::scenarios(context.ink, &scenarios),
    })
}

fn unknown(name: &str) -> Failure {
    let known: Vec<_> = shipped::names().collect();
    Failure::Usage(format!(
        "{name}: no such scenario; shipped are {}",
        known.join(", ")
    ))
}

/// A bar on standard error, where that is a terminal and there is something to wait for.
struct Bar {
    bar: ProgressBar,
    began: Instant,
}

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %, {eta} left") {
            bar.set_style(style);
        }
        Self {
            bar,
            began: Instant::now(),
        }
    }

    fn show(&self, progress: Progress) {
        if !std::io::stderr().is_terminal() || self.began.elapsed().as_millis() < BAR_AFTER_MS {
            return;
        }
        if self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let step = (progress.done * BAR_STEPS as f64) as u64;
        self.bar.set_position(step.max(self.bar.position()));
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
