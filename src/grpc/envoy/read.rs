//! Reads what Envoy sends: valid, or refused with the field, the value and what is allowed.
//!
//! Entries whose key begins with `holdoff.` speak to holdoff; all others say which dependency is
//! meant. Fields that this does not know are passed over, as protobuf does.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use holdoff_decision::{Nanos, Outcome, policy::Rate};

use super::outcome;
use crate::{
    coordinator::{Hits, Refusal, Reporting},
    grpc::read::{self, quoted},
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
/// What Envoy itself allows.
const HITS_MAX: u64 = 1_000_000_000;
const ATTEMPT_MAX: u32 = 1_000_000;
const CALLER_MAX: usize = 200;
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

/// The entries of one descriptor that speak to holdoff, as they were sent.
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
        Some(name) => Some(name.to_owned()),
        None if entries.is_empty() => None,
        None => named(&entries)?,
    };
    if let Some(name) = &dependency {
        read::name(&format!("{field}.entries"), name)?;
    }
    let meant = meant(field, &said, descriptor, wall_unix_secs)?;
    if dependency.is_none() && entries.is_empty() && !matches!(meant, Meant::Report(..)) {
        let problem = format!("none that names a dependency; {OURS}dependency does");
        return Err(Refusal::invalid(format!("{field}.entries"), problem));
    }
    Ok(Descriptor {
        hits: hits(field, descriptor, of_request, &meant)?,
        limit: descriptor
            .limit
            .as_ref()
            .map(|limit| self::limit(field, limit))
            .transpose()?,
        caller: said.caller,
        instance: said.instance,
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
        read::limited(&field(), value, CALLER_MAX)?;
        // What Envoy writes for nothing.
        let value = (!value.is_empty() && value != "-").then_some(value);
        if slot.is_some() {
            return Err(Refusal::invalid(field(), format!("{key} stands twice")));
        }
        *slot = value;
    }
    Ok((said, others))
}

fn meant(
    field: &str,
    said: &Said<'_>,
    descriptor: &RateLimitDescriptor,
    wall_unix_secs: u64,
) -> Result<Meant, Refusal> {
    let tells = said.permit.is_some() || said.flags.is_some() || said.duration_ms.is_some();
    match said.outcome {
        Some(LATER) | None if !tells => match descriptor.is_negative_hits {
            true => Ok(Meant::Refund),
            false => {
                let attempt = number(field, "attempt", said.attempt, 1, ATTEMPT_MAX.into())?;
                let reporting = match said.outcome {
                    Some(_) => Reporting::AtTheEnd,
                    None => Reporting::Never,
                };
                Ok(Meant::Question(attempt.unwrap_or(1) as u32, reporting))
            }
        },
        outcome => {
            let code = number(field, "outcome", outcome, 0, 999)?;
            let permit = permit(field, said.permit)?;
            let took = number(field, "duration_ms", said.duration_ms, 0, LATENCY_MAX_MS)?;
            let told = outcome::Told {
                code: code.unwrap_or(0) as u16,
                flags: said.flags.unwrap_or_default(),
                took: took.map(Nanos::from_millis),
                retry_after: said.retry_after,
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

fn number(
    field: &str,
    key: &str,
    text: Option<&str>,
    least: u64,
    most: u64,
) -> Result<Option<u64>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
        Ok(_) | Err(_) => Err(Refusal::invalid(
            format!("{field}.entries"),
            format!(
                "{OURS}{key} {} is not allowed; {least} to {most}",
                quoted(text)
            ),
        )),
    }
}

/// 1 where a request says nothing or 0; a descriptor may say 0. A report takes nothing unless its
/// descriptor says so.
fn hits(
    field: &str,
    descriptor: &RateLimitDescriptor,
    of_request: u32,
    meant: &Meant,
) -> Result<Hits, Refusal> {
    let (field, hits) = match (descriptor.hits_addend, meant) {
        (Some(hits), _) => (format!("{field}.hits_addend"), hits),
        (None, Meant::Report(..)) => return Ok(Hits::Taken(0)),
        (None, Meant::Question(..) | Meant::Refund) => {
            ("hits_addend".to_owned(), u64::from(of_request.max(1)))
        }
    };
    match u32::try_from(hits) {
        Ok(hits) if u64::from(hits) <= HITS_MAX => Ok(match descriptor.is_negative_hits {
            true => Hits::GivenBack(hits),
            false => Hits::Taken(hits),
        }),
        Ok(_) | Err(_) => Err(Refusal::invalid(
            field,
            format!("{hits} is not allowed; 0 to {HITS_MAX}"),
        )),
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
