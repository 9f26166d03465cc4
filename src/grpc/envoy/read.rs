//! Reads what Envoy sends: valid, or refused with the field, the value and what is allowed.
//!
//! Entries whose key begins with `holdoff.` speak to holdoff; all others say which dependency is
//! meant. Fields that this does not know are passed over, as protobuf does.
//!
//! Keys are the operator's; values may be a stranger's (a header, a path) or the upstream's. Where a
//! question is refused Envoy lets the call pass, unless it is told otherwise, so only what an
//! operator or holdoff itself wrote is read strictly: keys, the permit, the status. Every other value
//! is read as well as it can be, and never decides whether there is an answer.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use holdoff_decision::{Nanos, Outcome, policy::Rate};

use super::outcome;
use crate::{
    coordinator::{Hits, Refusal, Reporting},
    grpc::read::{self, quoted},
    policy::{NAME_MAX_BYTES, is_name},
    proto::ratelimit::envoy::{
        extensions::common::ratelimit::v3::{
            RateLimitDescriptor, rate_limit_descriptor::RateLimitOverride,
        },
        service::ratelimit::v3::RateLimitRequest,
        r#type::v3::RateLimitUnit,
    },
};

/// Descriptors of a request, and entries of a descriptor.
const DESCRIPTORS_MAX: usize = 100;
const ENTRIES_MAX: usize = 64;
/// What Envoy itself allows; more counts as this.
const HITS_MAX: u32 = 1_000_000_000;
/// More counts as this.
const ATTEMPT_MAX: u64 = 1_000_000;
/// Of a caller the rest is cut off; what came with an outcome is not read then.
const TEXT_MAX: usize = 200;
/// More counts as this.
const LATENCY_MAX_MS: u64 = 24 * 3_600_000;
/// Keys that speak to holdoff begin so.
const OURS: &str = "holdoff.";
const KEYS: &str =
    "dependency, attempt, caller, instance, outcome, flags, duration_ms, retry_after, permit";
/// `holdoff.outcome` of a question: it will be told.
const LATER: &str = "later";

/// One descriptor.
#[derive(Clone, Debug)]
pub struct Descriptor<'a> {
    /// A name. `None`: no rule is for it, or it has no entries that name one.
    pub dependency: Option<String>,
    pub meant: Meant,
    pub hits: Hits,
    pub limit: Option<Rate>,
    pub caller: Option<&'a str>,
    pub instance: Option<&'a str>,
}

/// What a descriptor is for.
#[derive(Clone, Debug)]
pub enum Meant {
    /// May this attempt be made?
    Question(u32, Reporting),
    /// So the call of this permit ended.
    Report(Vec<u8>, Outcome),
    /// Hits that are given back.
    Refund,
}

/// The entries of one descriptor that speak to holdoff. `None`, except for the dependency, also where
/// they say nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Said<'a> {
    dependency: Option<&'a str>,
    attempt: Option<&'a str>,
    caller: Option<&'a str>,
    instance: Option<&'a str>,
    outcome: Option<&'a str>,
    flags: Option<&'a str>,
    duration_ms: Option<&'a str>,
    retry_after: Option<&'a str>,
    permit: Option<&'a str>,
}

/// The namespace of a domain.
///
/// # Errors
/// It can be no namespace.
pub fn domain(domain: &str) -> Result<&str, Refusal> {
    match domain {
        "" => Err(Refusal::invalid(
            "domain",
            "missing; the name of a namespace",
        )),
        domain => read::name("domain", domain),
    }
}

/// Reads the descriptors of a request. `named` gives the dependency that entries stand for.
///
/// # Errors
/// The first field that makes no sense.
pub fn descriptors<'a>(
    request: &'a RateLimitRequest,
    named: impl Fn(&[(&str, &str)]) -> Result<Option<String>, Refusal>,
    wall_unix_secs: u64,
) -> Result<Vec<Descriptor<'a>>, Refusal> {
    let count = request.descriptors.len();
    if count == 0 || count > DESCRIPTORS_MAX {
        let problem = format!("{count} descriptors; 1 to {DESCRIPTORS_MAX}");
        return Err(Refusal::invalid("descriptors", problem));
    }
    let read = |(index, descriptor): (usize, &'a RateLimitDescriptor)| {
        let field = format!("descriptors[{index}]");
        self::descriptor(
            &field,
            descriptor,
            request.hits_addend,
            &named,
            wall_unix_secs,
        )
    };
    request.descriptors.iter().enumerate().map(read).collect()
}

fn descriptor<'a>(
    field: &str,
    descriptor: &'a RateLimitDescriptor,
    of_request: u32,
    named: impl Fn(&[(&str, &str)]) -> Result<Option<String>, Refusal>,
    wall_unix_secs: u64,
) -> Result<Descriptor<'a>, Refusal> {
    let (said, entries) = entries(field, descriptor)?;
    let dependency = match said.dependency {
        // Said to be nothing, by whoever writes it, is still said.
        Some(name) if says(name) || entries.is_empty() => Some(name.to_owned()),
        None if entries.is_empty() => None,
        Some(_) | None => named(&entries)?,
    };
    let dependency = dependency.map(|name| nameable(&name));
    let meant = meant(field, &said, descriptor, wall_unix_secs)?;
    if dependency.is_none() && entries.is_empty() && !matches!(meant, Meant::Report(..)) {
        let problem = format!("none that names a dependency; {OURS}dependency does");
        return Err(Refusal::invalid(format!("{field}.entries"), problem));
    }
    Ok(Descriptor {
        hits: hits(descriptor, of_request, &meant),
        limit: descriptor
            .limit
            .as_ref()
            .map(|limit| self::limit(field, limit))
            .transpose()?,
        caller: said.caller.map(cut),
        instance: said.instance.map(cut),
        dependency,
        meant,
    })
}

/// Keys and values that name the dependency, in their order.
type Others<'a> = Vec<(&'a str, &'a str)>;

/// What is said to holdoff, and the other entries.
fn entries<'a>(
    field: &str,
    descriptor: &'a RateLimitDescriptor,
) -> Result<(Said<'a>, Others<'a>), Refusal> {
    let count = descriptor.entries.len();
    if count == 0 || count > ENTRIES_MAX {
        let problem = format!("{count} entries; 1 to {ENTRIES_MAX}");
        return Err(Refusal::invalid(format!("{field}.entries"), problem));
    }
    let mut said = Said::default();
    let mut others = Vec::with_capacity(count);
    for (index, entry) in descriptor.entries.iter().enumerate() {
        let (key, value) = (entry.key.as_str(), entry.value.as_str());
        let field = || format!("{field}.entries[{index}]");
        let Some(ours) = key.strip_prefix(OURS) else {
            others.push((key, value));
            continue;
        };
        let slot = match ours {
            "dependency" => &mut said.dependency,
            "attempt" => &mut said.attempt,
            "caller" => &mut said.caller,
            "instance" => &mut said.instance,
            "outcome" => &mut said.outcome,
            "flags" => &mut said.flags,
            "duration_ms" => &mut said.duration_ms,
            "retry_after" => &mut said.retry_after,
            "permit" => &mut said.permit,
            _ => {
                let problem = format!("{} is not known; after {OURS}: {KEYS}", quoted(key));
                return Err(Refusal::invalid(field(), problem));
            }
        };
        if slot.replace(value).is_some() {
            return Err(Refusal::invalid(field(), format!("{key} stands twice")));
        }
    }
    let heard = |value: Option<&'a str>| value.filter(|value| says(value));
    let said = Said {
        dependency: said.dependency,
        attempt: heard(said.attempt),
        caller: heard(said.caller),
        instance: heard(said.instance),
        outcome: heard(said.outcome),
        flags: heard(said.flags),
        duration_ms: heard(said.duration_ms),
        retry_after: heard(said.retry_after),
        permit: heard(said.permit),
    };
    Ok((said, others))
}

/// Not what Envoy writes for nothing.
fn says(value: &str) -> bool {
    !value.is_empty() && value != "-"
}

/// The name for what was written: `_` for what no name may hold, and its beginning where it is
/// longer; `-` for nothing.
fn nameable(text: &str) -> String {
    if is_name(text) {
        return text.to_owned();
    }
    let allowed = |it: char| is_name(it.encode_utf8(&mut [0; 4]));
    let name = text.chars().map(|it| if allowed(it) { it } else { '_' });
    match name.take(NAME_MAX_BYTES).collect::<String>() {
        none if none.is_empty() => "-".to_owned(),
        name => name,
    }
}

/// The beginning of what is too long.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

fn meant<'a>(
    field: &str,
    said: &Said<'a>,
    descriptor: &RateLimitDescriptor,
    wall_unix_secs: u64,
) -> Result<Meant, Refusal> {
    let tells = said.permit.is_some() || said.flags.is_some() || said.duration_ms.is_some();
    match said.outcome {
        Some(LATER) | None if !tells => match descriptor.is_negative_hits {
            true => Ok(Meant::Refund),
            false => {
                let attempt = said.attempt.and_then(|text| counted(text, ATTEMPT_MAX));
                let reporting = match said.outcome {
                    Some(_) => Reporting::AtTheEnd,
                    None => Reporting::Never,
                };
                let attempt = attempt.map_or(1, |attempt| attempt.max(1) as u32);
                Ok(Meant::Question(attempt, reporting))
            }
        },
        outcome => {
            let code = outcome.map_or(Ok(0), |text| status(field, text))?;
            let permit = permit(field, said.permit)?;
            let took = said
                .duration_ms
                .and_then(|text| counted(text, LATENCY_MAX_MS));
            let short = |value: Option<&'a str>| value.filter(|text| text.len() <= TEXT_MAX);
            let told = outcome::Told {
                code,
                flags: short(said.flags).unwrap_or_default(),
                took: took.map(Nanos::from_millis),
                retry_after: short(said.retry_after),
                wall_unix_secs,
            };
            Ok(Meant::Report(permit, told.outcome()))
        }
    }
}

fn permit(field: &str, permit: Option<&str>) -> Result<Vec<u8>, Refusal> {
    let field = format!("{field}.entries");
    let Some(text) = permit else {
        let problem = format!(
            "no {OURS}permit; the question's answer has it in Envoy's dynamic metadata, if the question says {OURS}outcome: {LATER}"
        );
        return Err(Refusal::invalid(field, problem));
    };
    STANDARD
        .decode(text)
        .map_err(|_| Refusal::invalid(field, format!("{OURS}permit {} is no permit", quoted(text))))
}

fn status(field: &str, text: &str) -> Result<u16, Refusal> {
    match text.parse::<u16>() {
        Ok(status) if status <= 999 => Ok(status),
        Ok(_) | Err(_) => Err(Refusal::invalid(
            format!("{field}.entries"),
            format!(
                "{OURS}outcome {} is not allowed; {LATER}, or 0 to 999",
                quoted(text)
            ),
        )),
    }
}

/// A number, `most` where it is greater. `None`: it cannot be read.
fn counted(text: &str, most: u64) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Digits fail to be a number only where they are too many.
    digits.then(|| text.parse().unwrap_or(most).min(most))
}

/// 1 where a request says nothing or 0; a descriptor may say 0. A report takes nothing unless its
/// descriptor says so.
fn hits(descriptor: &RateLimitDescriptor, of_request: u32, meant: &Meant) -> Hits {
    let hits = match (descriptor.hits_addend, meant) {
        (Some(hits), _) => u32::try_from(hits).unwrap_or(HITS_MAX),
        (None, Meant::Report(..)) => return Hits::Taken(0),
        (None, Meant::Question(..) | Meant::Refund) => of_request.max(1),
    };
    match descriptor.is_negative_hits {
        true => Hits::GivenBack(hits.min(HITS_MAX)),
        false => Hits::Taken(hits.min(HITS_MAX)),
    }
}

/// As many at once as a window of the unit would let through.
fn limit(field: &str, limit: &RateLimitOverride) -> Result<Rate, Refusal> {
    let seconds = match RateLimitUnit::try_from(limit.unit) {
        Ok(RateLimitUnit::Second) => 1.0,
        Ok(RateLimitUnit::Minute) => 60.0,
        Ok(RateLimitUnit::Hour) => 3_600.0,
        Ok(RateLimitUnit::Day) => 86_400.0,
        Ok(RateLimitUnit::Month) => 2_592_000.0,
        Ok(RateLimitUnit::Year) => 31_536_000.0,
        Ok(RateLimitUnit::Unknown) | Err(_) => {
            return Err(Refusal::invalid(
                format!("{field}.limit.unit"),
                format!("{} is not allowed; a unit of time, 1 to 6", limit.unit),
            ));
        }
    };
    Ok(Rate {
        per_second: f64::from(limit.requests_per_unit) / seconds,
        burst: limit.requests_per_unit,
        max_wait: Nanos::ZERO,
        per_caller: false,
    })
}
