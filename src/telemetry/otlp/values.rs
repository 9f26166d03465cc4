//! Values of the standard variables that OpenTelemetry's own code would pass over without a word, and
//! do something else: they are looked at before, and refused with what is allowed.
//!
//! Of two variables that say the same, a signal's own and the one of both, only the one that counts is
//! looked at.

use http::{HeaderName, HeaderValue, Uri, uri::Authority};

use super::switches::Misconfigured;

/// The end of a variable's name or all of it, whether a value is allowed, and what is.
type Rule = (&'static str, fn(&str) -> bool, &'static str);

const MILLIS: &str = "a whole number of milliseconds, from 1";
const COUNT: &str = "a whole number, from 1";
const LIMIT: &str = "a whole number, from 0";
const ADDRESS: &str =
    "an address with http:// or https:// and a port up to 65535, such as http://127.0.0.1:4317";
const PAIRS: &str = "name=value, with commas between several";

const OF_EXPORTERS: [Rule; 3] = [
    ("TIMEOUT", is_count, MILLIS),
    ("COMPRESSION", is_compression, "gzip or none"),
    ("INSECURE", is_switch, "true or false"),
];
const OF_METRICS: [Rule; 3] = [
    ("OTEL_METRIC_EXPORT_INTERVAL", is_count, MILLIS),
    ("OTEL_METRIC_EXPORT_TIMEOUT", is_count, MILLIS),
    (
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
        is_temporality,
        "cumulative, delta or lowmemory",
    ),
];
const OF_TRACES: [Rule; 8] = [
    ("OTEL_BSP_SCHEDULE_DELAY", is_count, MILLIS),
    ("OTEL_BSP_EXPORT_TIMEOUT", is_count, MILLIS),
    ("OTEL_BSP_MAX_QUEUE_SIZE", is_count, COUNT),
    ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", is_count, COUNT),
    ("OTEL_BSP_MAX_CONCURRENT_EXPORTS", is_count, COUNT),
    ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", is_limit, LIMIT),
    ("OTEL_SPAN_EVENT_COUNT_LIMIT", is_limit, LIMIT),
    ("OTEL_SPAN_LINK_COUNT_LIMIT", is_limit, LIMIT),
];
const OF_BOTH: [Rule; 1] = [("OTEL_RESOURCE_ATTRIBUTES", are_pairs, PAIRS)];

/// What is looked at for `METRICS` or `TRACES`, which is sent.
///
/// # Errors
/// The variable, its value and what is allowed; of headers, which are secret, not the value.
pub(super) fn check(
    said: &impl Fn(&str) -> Option<String>,
    signal: &str,
) -> Result<(), Misconfigured> {
    let counts = |what: &str| {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{signal}_{what}"),
            format!("OTEL_EXPORTER_OTLP_{what}"),
        ];
        names
            .into_iter()
            .find_map(|name| said(&name).map(|value| (name, value)))
    };
    for (what, is_allowed, allowed) in OF_EXPORTERS {
        if let Some((name, value)) = counts(what) {
            refuse(&name, &value, is_allowed(&value), allowed)?;
        }
    }
    if let Some((name, value)) = counts("ENDPOINT") {
        // Without a scheme the next variable says which it is; without that, TLS would be taken.
        let has_scheme = value.contains("://");
        let whole = match has_scheme || counts("INSECURE").is_none() {
            true => value.clone(),
            false => format!("http://{value}"),
        };
        refuse(&name, &value, is_address(&whole), ADDRESS)?;
    }
    if let Some((name, value)) = counts("HEADERS") {
        refuse(&name, "…", are_headers(&value), PAIRS)?;
    }
    let own: &[Rule] = match signal {
        "METRICS" => &OF_METRICS,
        _ => &OF_TRACES,
    };
    for (name, is_allowed, allowed) in own.iter().chain(&OF_BOTH) {
        if let Some(value) = said(name) {
            refuse(name, &value, is_allowed(&value), allowed)?;
        }
    }
    Ok(())
}

fn refuse(name: &str, value: &str, is_allowed: bool, allowed: &str) -> Result<(), Misconfigured> {
    match is_allowed {
        true => Ok(()),
        false => Err(Misconfigured::value(name, value, allowed)),
    }
}

fn is_count(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|count| count > 0)
}

fn is_limit(text: &str) -> bool {
    text.parse::<u32>().is_ok()
}

pub(super) fn is_switch(text: &str) -> bool {
    ["true", "false"]
        .iter()
        .any(|it| text.eq_ignore_ascii_case(it))
}

fn is_compression(text: &str) -> bool {
    ["gzip", "none"]
        .iter()
        .any(|it| text.eq_ignore_ascii_case(it))
}

fn is_temporality(text: &str) -> bool {
    ["cumulative", "delta", "lowmemory"]
        .iter()
        .any(|it| text.eq_ignore_ascii_case(it))
}

fn is_address(text: &str) -> bool {
    text.parse::<Uri>().is_ok_and(|uri| {
        let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        scheme && uri.authority().is_some_and(has_place)
    })
}

/// A host, and a port that there can be where one is said.
fn has_place(authority: &Authority) -> bool {
    let named = match authority.port_u16() {
        Some(port) => port > 0,
        None => authority.as_str().rsplit('@').next() == Some(authority.host()),
    };
    named && !authority.host().is_empty()
}

fn pairs(text: &str) -> impl Iterator<Item = Option<(&str, &str)>> {
    text.split_terminator(',').map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim(), value.trim()))
    })
}

fn are_pairs(text: &str) -> bool {
    pairs(text).all(|pair| pair.is_some_and(|(name, _)| !name.is_empty()))
}

fn are_headers(text: &str) -> bool {
    pairs(text).all(|pair| {
        pair.is_some_and(|(name, value)| {
            HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok()
        })
    })
}
