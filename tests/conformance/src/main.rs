//! Runs the conformance scenarios with the driver of a client. See `docs/conformance.md`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use holdoff_conformance::{
    run::{self, Played, Settings},
    scenario,
};

/// Plays scripted scenarios with a client's driver and compares what it does.
#[derive(Debug, Parser)]
struct Arguments {
    /// The driver's command; several are compared one after the other.
    #[arg(long, required_unless_present = "list")]
    driver: Vec<String>,
    /// Only scenarios whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Scenarios at the same time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// What a busy machine may add to an upper bound of a time.
    #[arg(long, default_value_t = 150)]
    slack_ms: u64,
    /// Where the scenarios are.
    #[arg(long, default_value = "tests/conformance/scenarios")]
    scenarios: PathBuf,
    /// A scenario that failed is not played once more, alone, before it counts as failed.
    #[arg(long)]
    once: bool,
    /// Prints the names of the scenarios.
    #[arg(long)]
    list: bool,
    /// Prints the lines that go to and from the driver.
    #[arg(long)]
    verbose: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match play(&Arguments::parse()).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => {
            eprintln!("{why:#}");
            ExitCode::from(2)
        }
    }
}

/// How many failed.
async fn play(arguments: &Arguments) -> anyhow::Result<usize> {
    let scenarios = scenario::read_all(&arguments.scenarios, arguments.only.as_deref())?;
    if arguments.list {
        for scenario in &scenarios {
            println!("{}: {}", scenario.name, scenario.about);
        }
        return Ok(0);
    }
    let settings = Settings {
        jobs: arguments.jobs.into(),
        slack: Duration::from_millis(arguments.slack_ms),
        is_verbose: arguments.verbose,
    };
    let mut failed = 0;
    for command in &arguments.driver {
        let played = run::all(command, scenarios.clone(), settings, show).await?;
        let mut bad = failures(&played);
        if !arguments.once && !bad.is_empty() {
            println!("again, one at a time, what a busy machine may have failed:");
            let alone = Settings {
                jobs: 1,
                ..settings
            };
            let mut again = scenarios.clone();
            again.retain(|scenario| bad.contains(&scenario.name));
            bad = failures(&run::all(command, again, alone, show).await?);
        }
        println!(
            "{} of {} scenarios failed: {command}",
            bad.len(),
            played.len()
        );
        failed += bad.len();
    }
    Ok(failed)
}

fn failures(played: &[Played]) -> Vec<String> {
    let bad = played.iter().filter(|one| !one.differences.is_empty());
    bad.map(|one| one.name.clone()).collect()
}

fn show(played: &Played) {
    let took = played.took.as_millis();
    if played.differences.is_empty() {
        println!("ok    {} ({took} ms)", played.name);
        return;
    }
    println!("FAIL  {} ({took} ms)", played.name);
    for difference in &played.differences {
        println!("        {difference}");
    }
}
