//! What the span of a question or a report says. Only called where somebody wants it.

use http::HeaderMap;
use tonic::{Status, metadata::MetadataMap};

use super::read;
use crate::{
    policy::DEFAULT_NAMESPACE,
    proto::{
        AcquireRequest, AcquireResponse, BreakerState, DenialReason, ReportReason, ReportRequest,
        ReportResponse, acquire_response::Verdict,
    },
    telemetry::{RpcSpan, Telemetry, attribute},
};

/// Where a question or a report came from.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// An RPC of its own, with its metadata.
    Rpc(&'a MetadataMap),
    /// One message of many on a session: in no caller's trace.
    Session,
    /// HTTP, with its headers.
    Http(&'a HeaderMap),
}

/// The names that a span has, by where it came from.
pub struct Names {
    rpc: &'static str,
    session: &'static str,
    http: &'static str,
}

pub const ACQUIRE: Names = Names {
    rpc: "holdoff.v1.CoordinatorService/Acquire",
    session: "holdoff.v1.CoordinatorService/Session acquire",
    http: "POST /v1/acquire",
};

pub const REPORT: Names = Names {
    rpc: "holdoff.v1.CoordinatorService/Report",
    session: "holdoff.v1.CoordinatorService/Session report",
    http: "POST /v1/report",
};

pub fn begin(telemetry: &Telemetry, names: &Names, origin: Origin<'_>) -> RpcSpan {
    match origin {
        Origin::Rpc(metadata) => {
            let mut span = telemetry.span(names.rpc, Some(metadata.as_ref()));
            span.set(attribute::SYSTEM, attribute::GRPC);
            span.set(attribute::METHOD, names.rpc);
            span
        }
        Origin::Session => telemetry.span(names.session, None),
        Origin::Http(headers) => telemetry.span(names.http, Some(headers)),
    }
}

/// Of a refused question only its status is said: its names were not checked.
pub fn end_acquire(
    mut span: RpcSpan,
    request: &AcquireRequest,
    defaults: &read::Defaults,
    answered: Result<&AcquireResponse, &Status>,
) {
    if let Ok(response) = answered {
        let service = request.caller.as_ref().map(|caller| &caller.service);
        set_names(&mut span, &request.namespace, service, defaults);
        span.set(attribute::DEPENDENCY, request.dependency.clone());
        span.set(attribute::ATTEMPT, i64::from(request.attempt));
        set_answer(&mut span, request, response);
    }
    span.end(answered.map(|_| ()));
}

fn set_answer(span: &mut RpcSpan, request: &AcquireRequest, response: &AcquireResponse) {
    span.set(attribute::STATE, word::<BreakerState>(response.state));
    let epoch = i64::try_from(response.epoch).unwrap_or(i64::MAX);
    span.set(attribute::EPOCH, epoch);
    match &response.verdict {
        Some(Verdict::Grant(grant)) => {
            span.set(attribute::VERDICT, "granted");
            let delay = grant.delay.unwrap_or_default();
            let seconds = delay.seconds as f64 + f64::from(delay.nanos) / 1e9;
            span.set(attribute::DELAY, seconds);
            let reason = match (grant.probe, request.hedge, request.attempt) {
                (true, _, _) => "probe",
                _ if !request.confirm.is_empty() => "confirmed",
                (false, true, _) => "hedge",
                (false, false, 1) => "first",
                (false, false, _) => "retry",
            };
            span.set(attribute::REASON, reason);
        }
        Some(Verdict::Denial(denial)) => {
            span.set(attribute::VERDICT, "denied");
            span.set(attribute::REASON, word::<DenialReason>(denial.reason));
        }
        None => {}
    }
}

/// As [`end_acquire`].
pub fn end_report(
    mut span: RpcSpan,
    request: &ReportRequest,
    defaults: &read::Defaults,
    answered: Result<&ReportResponse, &Status>,
) {
    if let Ok(response) = answered {
        let service = request.caller.as_ref().map(|caller| &caller.service);
        set_names(&mut span, &request.namespace, service, defaults);
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        span.set(attribute::ENTRIES, count(request.entries.len()));
        let applied = response.results.iter().filter(|result| result.applied);
        span.set(attribute::APPLIED, count(applied.count()));
        let refused = response.results.iter().find(|result| !result.applied);
        let reason = match refused {
            Some(result) => word::<ReportReason>(result.reason),
            None => "ok".to_owned(),
        };
        span.set(attribute::REASON, reason);
    }
    span.end(answered.map(|_| ()));
}

fn set_names(
    span: &mut RpcSpan,
    namespace: &str,
    service: Option<&String>,
    defaults: &read::Defaults,
) {
    let first_said = |names: [&str; 3]| -> String {
        let said = names.into_iter().find(|name| !name.is_empty());
        said.unwrap_or_default().to_owned()
    };
    let namespace = first_said([namespace, &defaults.namespace, DEFAULT_NAMESPACE]);
    span.set(attribute::NAMESPACE, namespace);
    let service = service.map_or("", String::as_str);
    let service = first_said([service, &defaults.service, ""]);
    if !service.is_empty() {
        span.set(attribute::SERVICE, service);
    }
}

/// `DENIAL_REASON_BREAKER_OPEN` is `breaker_open`, as in the labels of metrics.
trait Word: TryFrom<i32> {
    const PREFIX: &'static str;
    fn spelled(self) -> &'static str;
}

fn word<W: Word>(number: i32) -> String {
    let spelled = W::try_from(number).map_or("", Word::spelled);
    spelled
        .strip_prefix(W::PREFIX)
        .unwrap_or(spelled)
        .to_ascii_lowercase()
}

macro_rules! words {
    ($($of:path: $prefix:literal),*) => {
        $(impl Word for $of {
            const PREFIX: &'static str = $prefix;
            fn spelled(self) -> &'static str {
                self.as_str_name()
            }
        })*
    };
}

words!(
    BreakerState: "BREAKER_STATE_",
    DenialReason: "DENIAL_REASON_",
    ReportReason: "REPORT_REASON_"
);
