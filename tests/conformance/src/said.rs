//! What a script says, as messages of the contract. Numbers stand for themselves, so that a
//! script may say what no contract allows.

use anyhow::{Context, Result, bail};
use holdoff_client::proto;
use serde_json::Value;

use crate::scenario::{Answer, Grant, Update};

/// What becomes of a question.
#[derive(Clone, Debug)]
pub enum Reply {
    Answer(Box<proto::AcquireResponse>),
    Fail(tonic::Code),
    Silence,
}

/// The answer to a question; `permit` names what is granted.
///
/// # Errors
/// A name that the contract does not have.
pub fn reply(answer: &Answer, permit: &str) -> Result<Reply> {
    use proto::acquire_response::Verdict;
    if answer.silence {
        return Ok(Reply::Silence);
    }
    if let Some(code) = &answer.fail {
        return Ok(Reply::Fail(code_of(code)?));
    }
    let verdict = match (&answer.grant, &answer.deny, answer.empty) {
        (Some(said), None, false) => Some(Verdict::Grant(grant(said, permit))),
        (None, Some(said), false) => Some(Verdict::Denial(proto::Denial {
            reason: denial_reason(&said.reason)?,
            retry_after: said.retry_after_ms.map(millis),
            detail: said.detail.clone(),
        })),
        (None, None, true) => None,
        _ => bail!("an answer is one of grant, deny, fail, empty, silence"),
    };
    let state = answer.state.as_ref().map_or(Ok(1), breaker_state)?;
    Ok(Reply::Answer(Box::new(proto::AcquireResponse {
        verdict,
        state,
        epoch: answer.epoch.unwrap_or(1),
        degraded: false,
        previous_result: 0,
    })))
}

fn grant(said: &Grant, permit: &str) -> proto::Grant {
    let raw = said.delay.map(|raw| prost_types::Duration {
        seconds: raw.seconds,
        nanos: raw.nanos,
    });
    let delay = said.delay_ms.unwrap_or(Some(0)).map(millis);
    proto::Grant {
        delay: raw.or(delay),
        permit: permit.as_bytes().to_vec().into(),
        permit_ttl: Some(millis(said.permit_ttl_ms.unwrap_or(60_000))),
        probe: said.probe,
        confirm: said.confirm,
        attempt_timeout: said.attempt_timeout_ms.map(millis),
    }
}

/// # Errors
/// A name or a field that the contract does not have.
pub fn update(said: &Update) -> Result<proto::Update> {
    let policy = said.policy.as_ref().map(client_policy).transpose()?;
    Ok(proto::Update {
        dependency: said.dependency.clone(),
        state: breaker_state(&said.state)?,
        epoch: said.epoch,
        first_attempts: number_of(&said.first_attempts, "FIRST_ATTEMPTS_", |name| {
            proto::FirstAttempts::from_str_name(name).map(Into::into)
        })?,
        valid_for: said.valid_for_ms.map(signed_millis),
        policy,
        offline_allowance: allowance(said),
    })
}

/// `None`: nothing is said of it.
fn allowance(said: &Update) -> Option<proto::OfflineAllowance> {
    let (rate, clients) = (said.retries_per_second, said.known_clients);
    (rate.is_some() || clients.is_some()).then(|| proto::OfflineAllowance {
        retries_per_second: rate.unwrap_or_default(),
        known_clients: clients.unwrap_or(1),
    })
}

fn client_policy(said: &Value) -> Result<proto::ClientPolicy> {
    // Zero attempts would mean: unlimited.
    let mut policy = proto::ClientPolicy {
        max_attempts: 3,
        ..Default::default()
    };
    for (name, value) in said.as_object().context("a policy is an object")? {
        let span = || value.as_i64().map(signed_millis);
        let double = || value.as_f64().with_context(|| name.clone());
        match name.as_str() {
            "max_attempts" => policy.max_attempts = double()? as u32,
            "multiplier" => policy.multiplier = double()?,
            "jitter_proportion" => policy.jitter_proportion = double()?,
            "budget_ratio" => policy.budget_ratio = double()?,
            "open_multiplier" => policy.open_multiplier = double()?,
            "strategy" => {
                policy.strategy = number_of(value, "STRATEGY_", |name| {
                    proto::Strategy::from_str_name(name).map(Into::into)
                })?;
            }
            "jitter" => {
                policy.jitter = number_of(value, "JITTER_", |name| {
                    proto::Jitter::from_str_name(name).map(Into::into)
                })?;
            }
            "initial_delay_ms" => policy.initial_delay = span(),
            "max_delay_ms" => policy.max_delay = span(),
            "min_delay_ms" => policy.min_delay = span(),
            "min_attempt_time_ms" => policy.min_attempt_time = span(),
            "pushback_max_ms" => policy.pushback_max = span(),
            "pushback_spread_ms" => policy.pushback_spread = span(),
            "budget_ttl_ms" => policy.budget_ttl = span(),
            "open_for_ms" => policy.open_for = span(),
            "open_max_ms" => policy.open_max = span(),
            "slow_after_ms" => policy.slow_after = span(),
            "breaker_off" => {
                policy.breaker_off = value.as_bool().context("breaker_off is true or false")?;
            }
            other => bail!("a policy has no field `{other}`"),
        }
    }
    Ok(policy)
}

fn breaker_state(said: &Value) -> Result<i32> {
    number_of(said, "BREAKER_STATE_", |name| {
        proto::BreakerState::from_str_name(name).map(Into::into)
    })
}

fn denial_reason(said: &Value) -> Result<i32> {
    number_of(said, "DENIAL_REASON_", |name| {
        proto::DenialReason::from_str_name(name).map(Into::into)
    })
}

/// # Errors
/// No such code.
pub fn code_of(name: &str) -> Result<tonic::Code> {
    let known = (0..17).map(tonic::Code::from);
    let mut found = known.filter(|code| shouted(&format!("{code:?}")) == name);
    found
        .next()
        .with_context(|| format!("no gRPC code `{name}`"))
}

/// `BreakerOpen` is `BREAKER_OPEN`.
pub fn shouted(name: &str) -> String {
    let mut shouted = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !shouted.is_empty() {
            shouted.push('_');
        }
        shouted.extend(letter.to_uppercase());
    }
    shouted
}

fn number_of(said: &Value, prefix: &str, known: fn(&str) -> Option<i32>) -> Result<i32> {
    match said.as_str() {
        Some(name) => known(&format!("{prefix}{name}")).with_context(|| format!("no `{name}`")),
        None => {
            let number = said.as_i64().and_then(|number| i32::try_from(number).ok());
            number.with_context(|| format!("{said} is no number of an enum"))
        }
    }
}

fn millis(ms: u64) -> prost_types::Duration {
    signed_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

fn signed_millis(ms: i64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: ms / 1_000,
        // Below 10^9, so it fits.
        nanos: (ms % 1_000 * 1_000_000) as i32,
    }
}
