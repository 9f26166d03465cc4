//! Reads what clients send: valid, or refused with the field, the value and what is allowed.

use std::time::Duration;

use holdoff_decision::{Nanos, Outcome, OutcomeKind, State, Tally, calendar::Priority};

use crate::{
    coordinator::{Caller, CheckAsk, Entry, Inquiry, Key, Made, Refusal, Subject},
    policy::{DEFAULT_NAMESPACE, is_name},
    proto,
};

/// The most entries of a report and questions of a batch.
pub const BATCH_MAX: usize = 1_000;
const CALLER_MAX: usize = 200;
const CALL_ID_MAX: usize = 128;
const COST_MAX: u32 = 1_000_000;
const LATENCY_MAX: Duration = Duration::from_secs(24 * 3600);
const NAME: &str = "1 to 200 bytes of ASCII letters, digits and . _ / : @ - are allowed";

/// Names that a session gave once, for questions that give none.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    pub namespace: String,
    pub service: String,
    pub instance: String,
}

impl Defaults {
    /// The namespace of a request that names this one, or none.
    pub fn namespace<'a>(&'a self, named: &'a str) -> &'a str {
        match named {
            "" => &self.namespace,
            named => named,
        }
    }
}

/// Reads one question.
///
/// # Errors
/// The first field that makes no sense.
pub fn inquiry<'a>(
    request: &'a proto::AcquireRequest,
    defaults: &'a Defaults,
) -> Result<Inquiry<'a>, Refusal> {
    let namespace = defaults.namespace(&request.namespace);
    let key = Key {
        namespace: self::namespace(namespace)?,
        dependency: dependency(&request.dependency)?,
    };
    if request.attempt == 0 {
        return Err(Refusal::invalid(
            "attempt",
            "0 is not allowed; the first attempt is 1",
        ));
    }
    if request.cost > COST_MAX {
        return Err(Refusal::invalid(
            "cost",
            format!("{} is not allowed; 0 to {COST_MAX}", request.cost),
        ));
    }
    if request.call_id.len() > CALL_ID_MAX {
        let length = request.call_id.len();
        return Err(Refusal::invalid(
            "call_id",
            format!("{length} bytes; at most {CALL_ID_MAX}"),
        ));
    }
    Ok(Inquiry {
        key,
        caller: caller(request.caller.as_ref(), defaults)?,
        subject: subject(request)?,
        call_id: &request.call_id,
        idempotent: idempotent(request.safety)?,
        time_left: request
            .time_left
            .as_ref()
            .map(|left| span("time_left", left))
            .transpose()?,
        cost: request.cost.max(1),
        priority: priority(request.priority)?,
    })
}

fn subject(request: &proto::AcquireRequest) -> Result<Subject<'_>, Refusal> {
    let attempt = request.attempt;
    if !request.confirm.is_empty() {
        return match (request.hedge, &request.previous) {
            (true, _) => Err(Refusal::invalid("confirm", "not allowed with hedge")),
            (false, Some(_)) => Err(Refusal::invalid("previous", "not allowed with confirm")),
            (false, None) => Ok(Subject::Confirm(&request.confirm)),
        };
    }
    match (&request.previous, request.hedge) {
        (None, true) => Ok(Subject::Hedge { attempt }),
        (Some(_), true) => Err(Refusal::invalid("previous", "not allowed with hedge")),
        (None, false) if attempt == 1 => Ok(Subject::First),
        (None, false) => Err(Refusal::invalid(
            "previous",
            format!("missing; attempt {attempt} needs the outcome of the attempt before"),
        )),
        (Some(_), false) if attempt == 1 => {
            Err(Refusal::invalid("previous", "not allowed on attempt 1"))
        }
        (Some(previous), false) => {
            let outcome = outcome("previous.outcome", previous.outcome.as_ref())?;
            if outcome.kind == OutcomeKind::Success {
                return Err(Refusal::invalid(
                    "previous.outcome.kind",
                    "OUTCOME_KIND_SUCCESS is not allowed; a success is not retried",
                ));
            }
            let made = match &previous.made_under {
                Some(proto::previous::MadeUnder::Permit(permit)) if permit.is_empty() => {
                    return Err(Refusal::invalid("previous.permit", "missing"));
                }
                Some(proto::previous::MadeUnder::Permit(permit)) => Made::Permit(permit),
                Some(proto::previous::MadeUnder::Epoch(epoch)) => Made::Epoch(*epoch),
                None => Made::Nothing,
            };
            Ok(Subject::Retry {
                attempt,
                made,
                outcome,
            })
        }
    }
}

/// Reads the question of a checker.
///
/// # Errors
/// The first field that makes no sense.
pub fn check_ask(request: &proto::PlanCheckRequest) -> Result<CheckAsk<'_>, Refusal> {
    let checker = request.checker.as_ref();
    let checker = checker.ok_or_else(|| Refusal::invalid("checker", "missing"))?;
    limited("checker.service", &checker.service, CALLER_MAX)?;
    limited("checker.instance", &checker.instance, CALLER_MAX)?;
    let last = match &request.last_result {
        None => None,
        Some(result) => match proto::CheckVerdict::try_from(result.verdict) {
            Ok(proto::CheckVerdict::Healthy) => Some((&*result.permit, true)),
            Ok(proto::CheckVerdict::Unhealthy) => Some((&*result.permit, false)),
            Ok(proto::CheckVerdict::Unspecified | proto::CheckVerdict::Unknown) | Err(_) => {
                let problem = format!(
                    "{} is not allowed; 1 (healthy) or 2 (unhealthy)",
                    result.verdict
                );
                return Err(Refusal::invalid("last_result.verdict", problem));
            }
        },
    };
    Ok(CheckAsk {
        key: Key {
            namespace: namespace(&request.namespace)?,
            dependency: dependency(&request.dependency)?,
        },
        checker: Caller {
            service: &checker.service,
            instance: &checker.instance,
        },
        last,
    })
}

/// Reads the entries of a report. Nothing is counted unless all of them are valid.
///
/// # Errors
/// The first field that makes no sense.
pub fn entries(request: &proto::ReportRequest) -> Result<Vec<Entry<'_>>, Refusal> {
    let count = request.entries.len();
    if count == 0 || count > BATCH_MAX {
        return Err(Refusal::invalid(
            "entries",
            format!("{count} entries; 1 to {BATCH_MAX}"),
        ));
    }
    let read = |(index, entry)| self::entry(index, entry);
    request.entries.iter().enumerate().map(read).collect()
}

fn entry(index: usize, entry: &proto::ReportEntry) -> Result<Entry<'_>, Refusal> {
    match &entry.entry {
        None => Err(Refusal::invalid(
            format!("entries[{index}]"),
            "neither result nor tally",
        )),
        Some(proto::report_entry::Entry::Result(result)) => {
            if result.permit.is_empty() {
                return Err(Refusal::invalid(
                    format!("entries[{index}].result.permit"),
                    "missing",
                ));
            }
            let field = format!("entries[{index}].result.outcome");
            Ok(Entry::Permit(
                &result.permit,
                outcome(&field, result.outcome.as_ref())?,
            ))
        }
        Some(proto::report_entry::Entry::Tally(tally)) => {
            let field = format!("entries[{index}].tally");
            let name = name(&format!("{field}.dependency"), &tally.dependency)?;
            let latency_sum = tally.latency_sum.as_ref();
            let latency_sum = latency_sum.map(|sum| span(&format!("{field}.latency_sum"), sum));
            let latency_sum = latency_sum.transpose()?.unwrap_or_default();
            Ok(Entry::Tally(name, counts(tally, latency_sum)))
        }
    }
}

fn counts(tally: &proto::Tally, latency_sum: Nanos) -> Tally {
    Tally {
        epoch: tally.epoch,
        first_attempts: tally.first_attempts,
        successes: tally.successes,
        failures: tally.failures,
        timeouts: tally.timeouts,
        throttled: tally.throttled,
        rejected: tally.rejected,
        slow: tally.slow,
        ignored: tally.ignored,
        latency_sum,
    }
}

fn outcome(field: &str, outcome: Option<&proto::Outcome>) -> Result<Outcome, Refusal> {
    let outcome = outcome.ok_or_else(|| Refusal::invalid(field, "missing"))?;
    let latency = match &outcome.latency {
        None => None,
        Some(latency) => {
            let field = format!("{field}.latency");
            let read = span(&field, latency)?;
            if Duration::from(read) > LATENCY_MAX {
                return Err(Refusal::invalid(
                    field,
                    format!("{read} is not allowed; 0 to 24 h"),
                ));
            }
            Some(read)
        }
    };
    let pushback = outcome.pushback.as_ref();
    let pushback = pushback
        .map(|wait| span(&format!("{field}.pushback"), wait))
        .transpose()?;
    Ok(Outcome {
        kind: outcome_kind(field, outcome.kind)?,
        latency,
        pushback,
        do_not_retry: outcome.do_not_retry,
        retried_below: outcome.retried_below,
        restarts_backoff: outcome.pushback_restarts_backoff,
    })
}

fn outcome_kind(field: &str, kind: i32) -> Result<OutcomeKind, Refusal> {
    use proto::OutcomeKind as Kind;
    Ok(match Kind::try_from(kind) {
        Ok(Kind::Success) => OutcomeKind::Success,
        Ok(Kind::Failure) => OutcomeKind::Failure,
        Ok(Kind::Timeout) => OutcomeKind::Timeout,
        Ok(Kind::NotSent) => OutcomeKind::NotSent,
        Ok(Kind::Throttled) => OutcomeKind::Throttled,
        Ok(Kind::Rejected) => OutcomeKind::Rejected,
        Ok(Kind::Ignored) => OutcomeKind::Ignored,
        Ok(Kind::Cancelled) => OutcomeKind::Cancelled,
        Ok(Kind::Unspecified) | Err(_) => {
            return Err(Refusal::invalid(
                format!("{field}.kind"),
                format!("{kind} is not allowed; 1 to 8"),
            ));
        }
    })
}

fn idempotent(safety: i32) -> Result<bool, Refusal> {
    match proto::Safety::try_from(safety) {
        Ok(proto::Safety::Idempotent | proto::Safety::Keyed) => Ok(true),
        Ok(proto::Safety::Unsafe | proto::Safety::Unspecified) => Ok(false),
        Err(_) => Err(Refusal::invalid(
            "safety",
            format!("{safety} is not allowed; 0 to 3"),
        )),
    }
}

fn priority(priority: i32) -> Result<Priority, Refusal> {
    match proto::Priority::try_from(priority) {
        Ok(proto::Priority::Low) => Ok(Priority::Low),
        Ok(proto::Priority::Normal | proto::Priority::Unspecified) => Ok(Priority::Normal),
        Ok(proto::Priority::High) => Ok(Priority::High),
        Err(_) => Err(Refusal::invalid(
            "priority",
            format!("{priority} is not allowed; 0 to 3"),
        )),
    }
}

/// Reads a state filter.
///
/// # Errors
/// A value that is no state.
pub fn state(state: i32) -> Result<State, Refusal> {
    use proto::BreakerState as B;
    match B::try_from(state) {
        Ok(B::Closed) => Ok(State::Closed),
        Ok(B::Open) => Ok(State::Open),
        Ok(B::HalfOpen) => Ok(State::HalfOpen),
        Ok(B::Recovering) => Ok(State::Recovering),
        Ok(B::ForcedOpen) => Ok(State::ForcedOpen),
        Ok(B::ForcedClosed) => Ok(State::ForcedClosed),
        Ok(B::Unspecified) | Err(_) => Err(Refusal::invalid(
            "states",
            format!("{state} is not a state that can be looked for"),
        )),
    }
}

/// Reads a span of time: not negative, normalised as protobuf asks.
///
/// # Errors
/// Names the field.
pub fn span(field: &str, span: &prost_types::Duration) -> Result<Nanos, Refusal> {
    let refuse = |what: &str| {
        let text = format!(
            "{} s {} ns is not allowed; {what}",
            span.seconds, span.nanos
        );
        Err(Refusal::invalid(field, text))
    };
    let Ok(seconds) = u64::try_from(span.seconds) else {
        return refuse("0 or more");
    };
    match u32::try_from(span.nanos) {
        Err(_) if span.seconds == 0 => refuse("0 or more"),
        Ok(nanos) if nanos < 1_000_000_000 => {
            Ok(Nanos::from_secs(seconds).saturating_add(Nanos(u64::from(nanos))))
        }
        Ok(_) | Err(_) => refuse("nanos must be 0 to 999,999,999"),
    }
}

pub fn namespace(namespace: &str) -> Result<&str, Refusal> {
    match namespace {
        "" => Ok(DEFAULT_NAMESPACE),
        given => name("namespace", given),
    }
}

pub fn dependency(dependency: &str) -> Result<&str, Refusal> {
    name("dependency", dependency)
}

/// # Errors
/// It is not a name; it says what is allowed.
pub fn name<'a>(field: &str, name: &'a str) -> Result<&'a str, Refusal> {
    match is_name(name) {
        true => Ok(name),
        false => Err(Refusal::invalid(
            field,
            format!("{} is not allowed; {NAME}", quoted(name)),
        )),
    }
}

/// A text that somebody else chose, short and printable.
pub fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more} ({} bytes)", text.len())
}

pub fn caller<'a>(
    caller: Option<&'a proto::Caller>,
    defaults: &'a Defaults,
) -> Result<Caller<'a>, Refusal> {
    let (service, instance) = match caller {
        Some(caller) => (caller.service.as_str(), caller.instance.as_str()),
        None => (defaults.service.as_str(), defaults.instance.as_str()),
    };
    limited("caller.service", service, CALLER_MAX)?;
    limited("caller.instance", instance, CALLER_MAX)?;
    Ok(Caller { service, instance })
}

/// # Errors
/// Where the text is longer than `max` bytes.
pub fn limited(field: &str, text: &str, max: usize) -> Result<(), Refusal> {
    match text.len() {
        length if length > max => Err(Refusal::invalid(
            field,
            format!("{length} bytes; at most {max}"),
        )),
        _ => Ok(()),
    }
}
