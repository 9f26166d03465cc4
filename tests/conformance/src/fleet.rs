//! A mixed fleet: clients of several languages, one real service, one dependency that fails
//! for a while. What the dependency saw is held against what the policy promises.
//!
//! The drivers are those of the scenarios; here their functions really call (`get`), again and
//! again (`repeat`). Time is real, so the bounds are those of the policy and not of a clock.

mod dependency;
mod service;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub use self::dependency::Arrival;
use self::{dependency::Dependency, service::Service};
use crate::driver::Driver;

/// Leased at most, and needed to close.
pub const PROBES: usize = 2;
/// Calls that the breaker looks at; half of them failing open it.
const WINDOW: usize = 40;
/// Retries for each first attempt.
const RATIO: f64 = 0.2;
/// And so many a second.
const FLOOR_PER_SECOND: f64 = 1.0;
const BUDGET_TTL: Duration = Duration::from_secs(10);

const HEALTHY_FIRST: Duration = Duration::from_secs(3);
const OUTAGE: Duration = Duration::from_secs(3);
/// Longer than the outage, so that the first probes meet a dependency that works again.
const OPEN_FOR: Duration = Duration::from_secs(4);
const LASTS: Duration = Duration::from_secs(14);
const EVERY: Duration = Duration::from_millis(200);
/// What a busy machine may take for an answer. A client that is alone has a breaker and probes of
/// its own, and the laws are about those that are not.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A push may take so long to reach everybody.
const PUSHED_WITHIN: Duration = Duration::from_secs(1);

/// What runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The service's binary.
    pub holdoff: PathBuf,
    /// Each language and the command of its driver.
    pub drivers: Vec<(String, String)>,
    /// Clients of each language.
    pub clients: usize,
}

/// What came of it.
#[derive(Debug)]
pub struct Seen {
    pub arrivals: Vec<Arrival>,
    /// From when to when the dependency failed, in its own time.
    pub outage: (Duration, Duration),
    /// The most probes that were out together.
    pub probes_at_once: usize,
    /// Openings of the breaker, over the whole fleet.
    pub openings: usize,
    /// What the clients of each language say: calls, successes, refusals.
    pub told: BTreeMap<String, Told>,
}

/// Sums over the clients of one language.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub clients: usize,
    pub calls: u64,
    pub succeeded: u64,
    /// Calls that were never made.
    pub refused: u64,
}

/// The policy that the laws are about.
fn policy() -> String {
    format!(
        "version: 1
namespaces:
  default:
    dependencies:
      flaky:
        retry: {{max_attempts: 3, initial_delay: 50ms, max_delay: 500ms}}
        breaker: {{window: {WINDOW}, min_calls: {WINDOW}, failure_ratio: 0.5, open_for: {open}s, \
         spread: 500ms, probes: {PROBES}, probe_successes: {PROBES}, probe_lease: 2s}}
        budget: {{ratio: {RATIO}, floor_per_second: {FLOOR_PER_SECOND}, ttl: {ttl}s}}
",
        open = OPEN_FOR.as_secs(),
        ttl = BUDGET_TTL.as_secs(),
    )
}

/// Plays the plan to its end.
///
/// # Errors
/// Something could not be started, or a driver failed.
pub async fn play(plan: &Plan) -> Result<Seen> {
    let service = Service::start(&plan.holdoff, &policy()).await?;
    let dependency = Dependency::start().await?;
    let mut playing = JoinSet::new();
    for (language, driver) in ready(plan, service.address()).await? {
        let lines: Vec<_> = (0..plan.clients)
            .map(|index| line(&language, index, service.address(), dependency.address()))
            .collect();
        playing.spawn(async move {
            let told = all(&driver, lines).await;
            let told = told.with_context(|| format!("the clients in {language}"))?;
            driver.end().await?;
            anyhow::Ok((language, told))
        });
    }
    let languages = plan.drivers.iter().map(|(language, _)| language.as_str());
    let begun = dependency.has_heard_of(languages.collect()).await?;
    dependency
        .fails(begun + HEALTHY_FIRST, begun + HEALTHY_FIRST + OUTAGE)
        .await;
    let mut told = BTreeMap::new();
    while let Some(ended) = playing.join_next().await {
        let (language, of_language) = ended??;
        told.insert(language, of_language);
    }
    Ok(Seen {
        arrivals: dependency.arrivals(),
        probes_at_once: dependency.probes_at_once(),
        outage: (begun + HEALTHY_FIRST, begun + HEALTHY_FIRST + OUTAGE),
        openings: service.openings().await?,
        told,
    })
}

/// All drivers, each of which has made a call: languages take from a moment to seconds to begin,
/// and what they are compared in is the same outage.
async fn ready(plan: &Plan, service: &str) -> Result<Vec<(String, Arc<Driver>)>> {
    let line = json!({
        "scenario": "ready",
        "endpoints": [service],
        "control": "127.0.0.1:9",
        "client": {
            "options": {"service": "ready"},
            "steps": [{"do": "call", "name": "ready", "dependency": "ready", "function": [{"ok": "x"}]}],
        },
    });
    let mut beginning = JoinSet::new();
    for (language, command) in &plan.drivers {
        let driver = Arc::new(Driver::start(command, &BTreeMap::new(), false)?);
        let (language, line) = (language.clone(), line.clone());
        beginning.spawn(async move {
            let begun = driver.play(line).await;
            begun.with_context(|| format!("the driver in {language}"))?;
            anyhow::Ok((language, driver))
        });
    }
    let mut ready = Vec::new();
    while let Some(begun) = beginning.join_next().await {
        ready.push(begun??);
    }
    Ok(ready)
}

/// Clients begin apart, so that they do not call in step.
fn line(language: &str, index: usize, service: &str, dependency: &str) -> Value {
    let apart = (index * 37) % EVERY.as_millis() as usize;
    json!({
        "scenario": "fleet",
        "endpoints": [service],
        "control": "127.0.0.1:9",
        "client": {
            "options": {
                "service": language, "instance": format!("{language}-{index}"), "follow": ["flaky"],
                "timeout_ms": TIMEOUT.as_millis() as u64,
            },
            "steps": [
                {"do": "connect", "within_ms": 5_000},
                {"do": "wait", "ms": apart},
                {
                    "do": "repeat", "name": "calls", "dependency": "flaky", "idempotent": true,
                    "for_ms": LASTS.as_millis() as u64, "every_ms": EVERY.as_millis() as u64,
                    "function": [{"get": format!("http://{dependency}/{language}")}],
                },
                {"do": "flush", "within_ms": 2_000},
            ],
        },
    })
}

async fn all(driver: &Arc<Driver>, lines: Vec<Value>) -> Result<Told> {
    let mut told = Told {
        clients: lines.len(),
        ..Told::default()
    };
    let mut playing = JoinSet::new();
    for line in lines {
        let driver = Arc::clone(driver);
        playing.spawn(async move { driver.play(line).await });
    }
    while let Some(played) = playing.join_next().await {
        let results = played??;
        let Some(calls) = results.get(0) else {
            bail!("a client told nothing: {results}");
        };
        let of = |name: &str| {
            let number = calls[name].as_u64();
            number.with_context(|| format!("no `{name}` in {calls}"))
        };
        told.calls += of("calls")?;
        told.succeeded += of("succeeded")?;
        told.refused += of("refused")?;
    }
    Ok(told)
}

impl Seen {
    /// The laws that do not hold, in words.
    pub fn broken_laws(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut law = |holds: bool, words: String| {
            if !holds {
                broken.push(words);
            }
        };
        law(
            self.openings == 1,
            format!("the breaker opened {} times, not once", self.openings),
        );
        law(
            self.probes_at_once == PROBES,
            format!(
                "{} probes were out at once, not {PROBES}",
                self.probes_at_once
            ),
        );
        // While the last success is on its way, the places of the others are free again.
        let probes = self.probes();
        law(
            (PROBES..2 * PROBES).contains(&probes),
            format!("{probes} probes for {PROBES} successes"),
        );
        let (firsts, retries) = (self.firsts(), self.retries());
        law(
            retries > 0,
            "nothing was retried, although calls fail in health too".into(),
        );
        let lasted = self.arrivals.last().map_or(Duration::ZERO, |last| last.at);
        let allowed =
            RATIO * firsts as f64 + FLOOR_PER_SECOND * (lasted + BUDGET_TTL).as_secs_f64();
        law(
            retries as f64 <= allowed,
            format!("{retries} retries for {firsts} first attempts, above {allowed:.0}"),
        );
        let hit = self.during_the_outage().count();
        let late = self.late_in_the_outage().count();
        law(
            late == 0,
            format!("{late} of {hit} calls came {PUSHED_WITHIN:?} after the breaker had opened"),
        );
        for (language, told) in &self.told {
            law(
                told.succeeded > 0 && told.refused > 0,
                format!("no client in {language} had both successes and refusals: {told:?}"),
            );
        }
        broken
    }

    pub fn firsts(&self) -> usize {
        self.arrivals.iter().filter(|it| it.attempt == 1).count()
    }

    pub fn retries(&self) -> usize {
        self.arrivals.len() - self.firsts()
    }

    pub fn probes(&self) -> usize {
        self.arrivals.iter().filter(|it| it.is_probe).count()
    }

    fn during_the_outage(&self) -> impl Iterator<Item = &Arrival> {
        let (from, to) = self.outage;
        self.arrivals
            .iter()
            .filter(move |it| from <= it.at && it.at < to)
    }

    /// Calls that came although everybody could know that the breaker was open. It opened at
    /// the latest when a whole window had failed.
    fn late_in_the_outage(&self) -> impl Iterator<Item = &Arrival> {
        let opened = self.during_the_outage().nth(WINDOW).map(|it| it.at);
        self.during_the_outage()
            .filter(move |it| opened.is_some_and(|opened| it.at > opened + PUSHED_WITHIN))
    }
}
