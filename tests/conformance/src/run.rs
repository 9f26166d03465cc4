//! Plays scenarios with a driver.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    compare::{Fields, differences},
    control::{self, Stage},
    driver::Driver,
    normal::{self, Event},
    scenario::{Scenario, Waited, Wire},
};

/// What has not come so long after the driver's answer is missing.
const LATE: Duration = Duration::from_secs(2);

const SETTLE: Duration = Duration::from_millis(50);

/// How scenarios are played.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// At the same time.
    pub jobs: usize,
    /// What a busy machine may add to an upper bound of a time.
    pub slack: Duration,
    pub is_verbose: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            jobs: 8,
            slack: Duration::from_millis(150),
            is_verbose: false,
        }
    }
}

/// What became of one scenario.
#[derive(Debug)]
pub struct Played {
    pub name: String,
    /// None: it passed.
    pub differences: Vec<String>,
    pub took: Duration,
}

/// Plays all of them, in the order in which they end.
///
/// # Errors
/// The driver cannot be started, or does not end well.
pub async fn all(
    command: &str,
    scenarios: Vec<Scenario>,
    settings: Settings,
    mut told: impl FnMut(&Played),
) -> Result<Vec<Played>> {
    let mut drivers: BTreeMap<BTreeMap<String, String>, Arc<Driver>> = BTreeMap::new();
    let jobs = Arc::new(Semaphore::new(settings.jobs));
    let mut playing = JoinSet::new();
    for scenario in scenarios {
        let driver = match drivers.get(&scenario.environment) {
            Some(driver) => Arc::clone(driver),
            None => {
                let environment = &scenario.environment;
                let driver = Driver::start(command, environment, settings.is_verbose)?;
                let driver = Arc::new(driver);
                drivers.insert(environment.clone(), Arc::clone(&driver));
                driver
            }
        };
        let jobs = Arc::clone(&jobs);
        playing.spawn(async move {
            let _turn = jobs.acquire().await;
            let begun = Instant::now();
            let differences = match one(&driver, &scenario, settings).await {
                Ok(differences) => differences,
                Err(why) => vec![format!("{why:#}")],
            };
            Played {
                name: scenario.name,
                differences,
                took: begun.elapsed(),
            }
        });
    }
    let mut played = Vec::new();
    while let Some(ended) = playing.join_next().await {
        let ended = ended.context("a scenario could not be played to its end")?;
        told(&ended);
        played.push(ended);
    }
    for driver in drivers.into_values() {
        driver.end().await?;
    }
    played.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(played)
}

/// The differences.
async fn one(driver: &Driver, scenario: &Scenario, settings: Settings) -> Result<Vec<String>> {
    let stage = Stage::begin(scenario)?;
    let (control, _listening) = control::listen(&stage).await?;
    let endpoints: Vec<String> = (stage.endpoints.iter())
        .map(|endpoint| endpoint.address.to_string())
        .collect();
    let options = match &scenario.client.options {
        Value::Null => json!({}),
        options => options.clone(),
    };
    let line = json!({
        "scenario": scenario.name,
        "endpoints": endpoints,
        "control": control.to_string(),
        "client": {"options": options, "steps": scenario.client.steps},
    });
    let results = driver.play(line).await?;
    let mut found = stage.failed();
    compare_results(
        &scenario.expect.results,
        &results,
        settings.slack,
        &mut found,
    );
    if let Some(waited) = &scenario.expect.waited {
        compare_waited(waited, &results, &mut found);
    }
    // What nobody expects must have had the time to come.
    tokio::time::sleep(SETTLE).await;
    let until = Instant::now() + LATE;
    loop {
        let on_the_wire = compare_wire(&scenario.expect.wire, &stage.script.events());
        if on_the_wire.is_empty() {
            return Ok(found);
        }
        if Instant::now() >= until {
            found.extend(on_the_wire);
            return Ok(found);
        }
        stage.script.changed().await;
    }
}

fn compare_results(expected: &[Value], results: &Value, slack: Duration, found: &mut Vec<String>) {
    let Some(results) = results.as_array() else {
        found.push(format!("results: expected a list, got {results}"));
        return;
    };
    for (index, expected) in expected.iter().enumerate() {
        let name = expected["name"].as_str().unwrap_or_default();
        match results.get(index) {
            Some(result) => {
                differences(name, expected, result, Fields::Stated, slack, found);
            }
            None => found.push(format!("{name}: no result")),
        }
    }
    for more in results.iter().skip(expected.len()) {
        found.push(format!("a result that was not asked for: {more}"));
    }
}

fn compare_waited(waited: &Waited, results: &Value, found: &mut Vec<String>) {
    let results = results.as_array().into_iter().flatten();
    let took = results.filter_map(|result| result["total_ms"].as_u64());
    let count = took.filter(|took| *took > waited.over_ms).count();
    differences(
        "waited",
        &waited.count,
        &count.into(),
        Fields::All,
        Duration::ZERO,
        found,
    );
}

fn compare_wire(wire: &Wire, events: &[Event]) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |path: &str, expected: &Value, got: Value| {
        differences(
            path,
            expected,
            &got,
            Fields::All,
            Duration::ZERO,
            &mut found,
        );
    };
    let asked = normal::asked(events);
    if let Some(count) = &wire.asked_count {
        compare("asked_count", count, asked.len().into());
    }
    if let Some(expected) = &wire.asked_sorted {
        let expected = normal::asked_sorted(expected.clone());
        let got = normal::asked_sorted(asked.clone());
        compare("asked_sorted", &expected.into(), got.into());
    }
    for (name, expected, got) in [
        ("asked", &wire.asked, asked),
        ("results", &wire.results, normal::results(events)),
        ("tallies", &wire.tallies, normal::tallies(events)),
        ("order", &wire.order, normal::order(events)),
    ] {
        if let Some(expected) = expected {
            compare(name, &expected.clone().into(), got.into());
        }
    }
    if let Some(expected) = &wire.sessions {
        let hellos = events
            .iter()
            .filter(|event| matches!(event, Event::Hello(_)));
        compare("sessions", expected, hellos.count().into());
    }
    if let Some(expected) = &wire.hello {
        compare("hello", expected, normal::hello(events));
    }
    found
}
