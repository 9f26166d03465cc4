//! Runs a mixed fleet of clients in several languages against the real service. See
//! `docs/conformance.md`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use holdoff_conformance::fleet::{self, Plan, Seen};

/// One service, one dependency that fails for a while, and clients of several languages.
#[derive(Debug, Parser)]
struct Arguments {
    /// A language and its driver, as `python=python3 clients/python/tests/driver.py`.
    #[arg(long, required = true)]
    driver: Vec<String>,
    /// Clients of each language.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=200))]
    clients: u16,
    /// The service's binary.
    #[arg(long, default_value = "target/debug/holdoff")]
    holdoff: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match play(Arguments::parse()).await {
        Ok(broken) if broken.is_empty() => ExitCode::SUCCESS,
        Ok(broken) => {
            broken.iter().for_each(|law| println!("FAIL  {law}"));
            ExitCode::from(1)
        }
        Err(why) => {
            eprintln!("{why:#}");
            ExitCode::from(2)
        }
    }
}

async fn play(arguments: Arguments) -> anyhow::Result<Vec<String>> {
    let drivers = arguments.driver.iter().map(|written| {
        let (language, command) = written
            .split_once('=')
            .with_context(|| format!("`{written}` is no driver: LANGUAGE=COMMAND"))?;
        anyhow::Ok((language.to_owned(), command.to_owned()))
    });
    let plan = Plan {
        holdoff: arguments.holdoff,
        drivers: drivers.collect::<Result<_, _>>()?,
        clients: arguments.clients.into(),
    };
    let seen = fleet::play(&plan).await?;
    show(&seen);
    Ok(seen.broken_laws())
}

fn show(seen: &Seen) {
    println!(
        "{:<12} {:>8} {:>8} {:>10} {:>8}",
        "language", "clients", "calls", "succeeded", "refused"
    );
    for (language, told) in &seen.told {
        println!(
            "{language:<12} {:>8} {:>8} {:>10} {:>8}",
            told.clients, told.calls, told.succeeded, told.refused
        );
    }
    let (firsts, retries) = (seen.firsts(), seen.retries());
    let probes = seen.probes();
    println!(
        "the dependency saw {firsts} first attempts, {retries} retries, {probes} probes; the breaker opened {} times",
        seen.openings
    );
}
