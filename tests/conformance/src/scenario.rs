//! One scenario as it is written. Unknown fields are refused: a misspelt one would check
//! nothing. The client's script is passed on as it is; the driver reads it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's stem.
    #[serde(skip)]
    pub name: String,
    /// What must hold, in a sentence.
    pub about: String,
    /// Variables of the driver's process.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    #[serde(default)]
    pub server: Server,
    pub client: Client,
    pub expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    pub endpoints: Vec<Behaviour>,
    pub updates: Vec<Update>,
    pub rules: Vec<Rule>,
    pub actions: BTreeMap<String, Vec<Action>>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            endpoints: vec![Behaviour::Serve],
            updates: Vec::new(),
            rules: Vec::new(),
            actions: BTreeMap::new(),
        }
    }
}

/// How an endpoint treats connections.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    Serve,
    Unary,
    Pause,
    Refuse,
    BlackHole,
    Garbage,
    Reset,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(default)]
    pub on: On,
    pub answer: Answer,
    /// How many questions it answers; without it, all.
    pub times: Option<u32>,
    /// An action that begins when it has answered.
    pub then: Option<String>,
}

/// Which questions a rule fits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct On {
    pub endpoint: Option<usize>,
    pub dependency: Option<String>,
    pub attempt: Option<u32>,
    pub hedge: Option<bool>,
    pub confirm: bool,
    pub previous_kind: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    pub grant: Option<Grant>,
    pub deny: Option<Deny>,
    pub fail: Option<String>,
    pub empty: bool,
    pub silence: bool,
    /// A name or a number.
    pub state: Option<Value>,
    pub epoch: Option<u64>,
    pub after_ms: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grant {
    /// `null` leaves the field out; without it, 0.
    #[serde(deserialize_with = "said_or_null")]
    pub delay_ms: Option<Option<u64>>,
    pub delay: Option<RawDuration>,
    pub permit_ttl_ms: Option<u64>,
    pub probe: bool,
    pub confirm: bool,
    pub attempt_timeout_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawDuration {
    pub seconds: i64,
    pub nanos: i32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deny {
    /// A name or a number.
    pub reason: Value,
    pub retry_after_ms: Option<u64>,
    #[serde(default)]
    pub detail: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Update {
    pub dependency: String,
    pub state: Value,
    #[serde(default = "one")]
    pub epoch: u64,
    pub first_attempts: Value,
    pub valid_for_ms: Option<i64>,
    /// Fields of `ClientPolicy`.
    pub policy: Option<Value>,
    /// Of `OfflineAllowance`.
    pub retries_per_second: Option<f64>,
    /// Of the same.
    pub known_clients: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum Action {
    Becomes {
        endpoint: usize,
        becomes: Behaviour,
    },
    Push {
        push: Update,
    },
    Rules {
        rules: Vec<Rule>,
    },
    Await {
        r#await: Counts,
        #[serde(default = "two_seconds")]
        within_ms: u64,
    },
    Sleep {
        sleep_ms: u64,
    },
}

/// How many of each have come at least.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counts {
    pub asked: usize,
    pub reported: usize,
    pub sessions: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    #[serde(default)]
    pub options: Value,
    pub steps: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    #[serde(default)]
    pub results: Vec<Value>,
    pub waited: Option<Waited>,
    #[serde(default)]
    pub wire: Wire,
}

/// How many calls may take long, where it is free which.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waited {
    pub over_ms: u64,
    pub count: Value,
}

/// What is stated of the wire; the rest is free.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wire {
    pub asked: Option<Vec<Value>>,
    pub asked_sorted: Option<Vec<Value>>,
    pub asked_count: Option<Value>,
    pub results: Option<Vec<Value>>,
    pub tallies: Option<Vec<Value>>,
    pub order: Option<Vec<Value>>,
    pub sessions: Option<Value>,
    pub hello: Option<Value>,
}

fn one() -> u64 {
    1
}

fn two_seconds() -> u64 {
    2_000
}

fn said_or_null<'de, D>(json: D) -> Result<Option<Option<u64>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Option::<u64>::deserialize(json).map(Some)
}

/// All scenarios of a folder whose name contains `only`, by name.
///
/// # Errors
/// A file cannot be read, or says something that no scenario can; or there is none.
pub fn read_all(folder: &Path, only: Option<&str>) -> Result<Vec<Scenario>> {
    let mut scenarios = Vec::new();
    let listed = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in listed {
        let path = entry?.path();
        let stem = path.file_stem().map(|stem| stem.to_string_lossy());
        let Some(name) = stem.filter(|_| path.extension().is_some_and(|end| end == "json")) else {
            continue;
        };
        if only.is_none_or(|only| name.contains(only)) {
            let text = fs::read_to_string(&path)?;
            let read = serde_json::from_str(&text);
            let mut scenario: Scenario = read.with_context(|| path.display().to_string())?;
            scenario.name = name.into_owned();
            write_out(&mut scenario);
            check(&scenario).with_context(|| path.display().to_string())?;
            scenarios.push(scenario);
        }
    }
    if scenarios.is_empty() {
        bail!("no scenario in {} with that name", folder.display());
    }
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

/// One call, and one result, for each of its copies.
fn write_out(scenario: &mut Scenario) {
    for step in &mut scenario.client.steps {
        if let Some(calls) = step["calls"].as_array() {
            step["calls"] = copies(calls).into();
        }
    }
    scenario.expect.results = copies(&scenario.expect.results);
}

fn copies(written: &[Value]) -> Vec<Value> {
    let copied = |one: &Value| {
        let mut one = one.clone();
        let count = one.as_object_mut().and_then(|one| one.remove("copies"));
        let Some(count) = count.and_then(|count| count.as_u64()) else {
            return vec![one];
        };
        let name = one["name"].as_str().unwrap_or_default().to_owned();
        let copy = |number| {
            let mut one = one.clone();
            one["name"] = format!("{name} {number}").into();
            one
        };
        (1..=count).map(copy).collect()
    };
    written.iter().flat_map(copied).collect()
}

/// What would compare nothing.
fn check(scenario: &Scenario) -> Result<()> {
    const STEPS: [&str; 12] = [
        "connect",
        "call",
        "parallel",
        "request",
        "acquire",
        "retry",
        "report",
        "drop",
        "until_fleet",
        "wait",
        "flush",
        "server",
    ];
    for step in &scenario.client.steps {
        let does = step["do"].as_str().unwrap_or_default();
        if !STEPS.contains(&does) {
            bail!("a step does `{does}`, which is none of {STEPS:?}");
        }
        let action = step["action"].as_str().unwrap_or_default();
        if does == "server" && !scenario.server.actions.contains_key(action) {
            bail!("there is no action `{action}`");
        }
    }
    let rules = scenario.server.rules.iter();
    for then in rules.filter_map(|rule| rule.then.as_ref()) {
        if !scenario.server.actions.contains_key(then) {
            bail!("there is no action `{then}`");
        }
    }
    let named = names(&scenario.client.steps);
    let expected = scenario.expect.results.iter().map(|result| &result["name"]);
    if !named.iter().eq(expected) {
        bail!("the results expected must be those of the steps named {named:?}");
    }
    Ok(())
}

fn names(steps: &[Value]) -> Vec<Value> {
    let mut named = Vec::new();
    for step in steps {
        let calls = step["calls"].as_array().into_iter().flatten();
        named.extend(
            std::iter::once(step)
                .chain(calls)
                .map(|step| step["name"].clone()),
        );
    }
    named.retain(|name| !name.is_null());
    named
}
