//! Writes what Envoy is answered, and the headers that its caller gets.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use holdoff_decision::{Denial, Nanos};
use prost_types::{Struct, Value, value::Kind};

use super::{Asked, CameTo};
use crate::{
    comparison::denial_reason,
    coordinator::Allowance,
    grpc::answer::{span, state},
    proto::ratelimit::envoy::{
        config::core::v3::HeaderValue,
        service::ratelimit::v3::{
            RateLimitResponse,
            rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit::Unit},
        },
    },
};

/// The answer to one request: OVER_LIMIT where any descriptor is, and a status for each.
pub fn response(asked: &[Asked<'_>], came_to: &[CameTo]) -> RateLimitResponse {
    let denied: Vec<(&Asked<'_>, &Denial)> = asked
        .iter()
        .filter_map(|asked| Some((asked, asked.passed.verdict.as_ref().err()?)))
        .collect();
    let overall = match denied.is_empty() {
        true => Code::Ok,
        false => Code::OverLimit,
    };
    RateLimitResponse {
        overall_code: overall.into(),
        statuses: came_to
            .iter()
            .map(|came_to| status(asked, came_to))
            .collect(),
        response_headers_to_add: headers(asked, &denied),
        raw_body: denied.first().map_or_else(Vec::new, |_| body(&denied)),
        dynamic_metadata: metadata(asked, &denied),
        ..RateLimitResponse::default()
    }
}

fn status(asked: &[Asked<'_>], came_to: &CameTo) -> DescriptorStatus {
    let counted = |code: Code, name: &str, allowance: Option<&Allowance>, until: Option<Nanos>| {
        DescriptorStatus {
            code: code.into(),
            current_limit: allowance.map(|allowance| limit(name, allowance)),
            limit_remaining: allowance.map_or(0, |allowance| allowance.left.calls),
            duration_until_reset: until.map(span),
            quota: None,
        }
    };
    let full_in = |allowance: &Option<Allowance>| allowance.as_ref().map(|one| one.left.full_in);
    match came_to {
        CameTo::Nothing => counted(Code::Ok, "", None, None),
        CameTo::Counted(allowance) => counted(Code::Ok, "", allowance.as_ref(), full_in(allowance)),
        CameTo::Asked(place) => match asked.get(*place) {
            None => counted(Code::Ok, "", None, None),
            Some(Asked { dependency, passed }) => {
                let allowance = passed.allowance.as_ref();
                match &passed.verdict {
                    Ok(_) => counted(Code::Ok, dependency, allowance, full_in(&passed.allowance)),
                    Err(denial) => {
                        counted(Code::OverLimit, dependency, allowance, denial.retry_after)
                    }
                }
            }
        },
    }
}

/// A rate in the shortest unit in which it is a whole number of calls.
fn limit(name: &str, allowance: &Allowance) -> RateLimit {
    const UNITS: [(Unit, f64); 7] = [
        (Unit::Second, 1.0),
        (Unit::Minute, 60.0),
        (Unit::Hour, 3_600.0),
        (Unit::Day, 86_400.0),
        (Unit::Week, 604_800.0),
        (Unit::Month, 2_592_000.0),
        (Unit::Year, 31_536_000.0),
    ];
    let calls_in = |seconds: f64| allowance.rate.per_second * seconds;
    let is_whole = |calls: f64| calls >= 0.5 && (calls - calls.round()).abs() < 1e-6 * calls;
    let whole = UNITS
        .iter()
        .find(|(_, seconds)| is_whole(calls_in(*seconds)));
    let roughly = || UNITS.iter().find(|(_, seconds)| calls_in(*seconds) >= 10.0);
    let (unit, seconds) = *whole.or_else(roughly).unwrap_or(&UNITS[0]);
    RateLimit {
        name: name.to_owned(),
        requests_per_unit: calls_in(seconds).round() as u32,
        unit: unit.into(),
    }
}

fn headers(asked: &[Asked<'_>], denied: &[(&Asked<'_>, &Denial)]) -> Vec<HeaderValue> {
    let mut headers = rate_limit_fields(asked);
    if let Some(seconds) = retry_after(denied) {
        headers.push(("retry-after", seconds.to_string()));
    }
    if let Some((_, denial)) = denied.first() {
        headers.push(("x-holdoff-reason", reason(denial).to_owned()));
    }
    headers
        .into_iter()
        .map(|(key, value)| HeaderValue {
            key: key.to_owned(),
            value,
            raw_value: Vec::new(),
        })
        .collect()
}

/// `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers, the form with one
/// item for each limit. The draft has changed before; nothing else here knows it.
fn rate_limit_fields(asked: &[Asked<'_>]) -> Vec<(&'static str, String)> {
    let limited = asked.iter().filter_map(|asked| {
        let allowance = asked.passed.allowance.as_ref()?;
        // A limit of nothing has no window.
        (allowance.rate.per_second > 0.0).then_some((asked.dependency, allowance))
    });
    let (mut policies, mut limits) = (Vec::new(), Vec::new());
    for (name, Allowance { rate, left }) in limited {
        let window = (f64::from(rate.burst) / rate.per_second).ceil().max(1.0);
        policies.push(format!("\"{name}\";q={};w={window}", rate.burst));
        let reset = whole_seconds(left.full_in);
        limits.push(format!("\"{name}\";r={};t={reset}", left.calls));
    }
    match policies.is_empty() {
        true => Vec::new(),
        false => vec![
            ("ratelimit-policy", policies.join(", ")),
            ("ratelimit", limits.join(", ")),
        ],
    }
}

/// When all that denied may pass. `None`: one of them never says when.
fn retry_after(denied: &[(&Asked<'_>, &Denial)]) -> Option<u64> {
    let waits: Option<Vec<Nanos>> = denied
        .iter()
        .map(|(_, denial)| denial.retry_after)
        .collect();
    let longest = waits?.into_iter().max()?;
    Some(whole_seconds(longest).max(1))
}

/// Rounded up, since a second too early is refused again.
fn whole_seconds(span: Nanos) -> u64 {
    span.0.div_ceil(1_000_000_000)
}

/// For whoever called; it names no dependency, since that is not theirs to know.
fn body(denied: &[(&Asked<'_>, &Denial)]) -> Vec<u8> {
    let reason = denied.first().map_or("", |(_, denial)| reason(denial));
    let text = match retry_after(denied) {
        Some(seconds) => format!("held off: {reason}; try again in {seconds} s\n"),
        None => format!("held off: {reason}\n"),
    };
    text.into_bytes()
}

fn reason(denial: &Denial) -> &'static str {
    let name = denial_reason(denial.reason).as_str_name();
    name.strip_prefix("DENIAL_REASON_").unwrap_or(name)
}

/// For Envoy's other filters, its access log, and the descriptor that tells the outcome.
fn metadata(asked: &[Asked<'_>], denied: &[(&Asked<'_>, &Denial)]) -> Option<Struct> {
    let text = |text: String| Value {
        kind: Some(Kind::StringValue(text)),
    };
    let permits: Vec<(String, Value)> = asked
        .iter()
        .filter_map(|asked| {
            let permit = asked.passed.verdict.as_ref().ok()?.as_ref()?;
            Some((asked.dependency.to_owned(), text(STANDARD.encode(permit))))
        })
        .collect();
    let mut fields = Struct::default();
    let mut put = |key: &str, value: Value| {
        fields.fields.insert(key.to_owned(), value);
    };
    if let [(_, permit)] = permits.as_slice() {
        put("permit", permit.clone());
    }
    if !permits.is_empty() {
        let fields = permits.into_iter().collect();
        let kind = Some(Kind::StructValue(Struct { fields }));
        put("permits", Value { kind });
    }
    if let Some((asked, denial)) = denied.first() {
        put("reason", text(reason(denial).to_owned()));
        put("detail", text(denial.to_string()));
        put("dependency", text(asked.dependency.to_owned()));
    }
    if let [one] = asked {
        let name = state(one.passed.state).as_str_name();
        let name = name.strip_prefix("BREAKER_STATE_").unwrap_or(name);
        put("state", text(name.to_owned()));
    }
    (!fields.fields.is_empty()).then_some(fields)
}
