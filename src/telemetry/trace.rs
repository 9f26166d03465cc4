//! A span for an RPC, with what was decided.
//!
//! Spans are made here, by hand, where a decision was made, and not by a layer over all of
//! `tracing`: such a layer would also take the transport's own spans, and would make each before
//! it is known whether anybody wants it.

use http::HeaderMap;
use opentelemetry::{
    Context, KeyValue, Value,
    propagation::{Extractor, TextMapPropagator},
    trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{SdkTracer, Span},
};

/// What spans say: of the RPC as OpenTelemetry has it, and of the decision.
pub mod attribute {
    pub const SYSTEM: &str = "rpc.system.name";
    /// The value of [`SYSTEM`].
    pub const GRPC: &str = "grpc";
    pub const METHOD: &str = "rpc.method";
    pub const STATUS: &str = "rpc.response.status_code";
    pub const NAMESPACE: &str = "holdoff.namespace";
    pub const DEPENDENCY: &str = "holdoff.dependency";
    pub const SERVICE: &str = "holdoff.caller.service";
    pub const ATTEMPT: &str = "holdoff.attempt";
    /// granted or denied.
    pub const VERDICT: &str = "holdoff.verdict";
    /// Why it was denied; what was granted.
    pub const REASON: &str = "holdoff.reason";
    pub const STATE: &str = "holdoff.state";
    pub const EPOCH: &str = "holdoff.epoch";
    /// Of a grant, in seconds.
    pub const DELAY: &str = "holdoff.delay";
    /// Of a report: how many entries it has, and how many of them counted.
    pub const ENTRIES: &str = "holdoff.report.entries";
    pub const APPLIED: &str = "holdoff.report.applied";
}

/// Whether a call that no trace came with may begin one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    Never,
    Sampled,
}

/// The span of one RPC, if somebody wants it.
#[derive(Debug)]
pub struct RpcSpan(Option<Box<Span>>);

impl RpcSpan {
    pub const fn none() -> Self {
        Self(None)
    }

    /// `headers`: of the request, which may name the caller's span (W3C `traceparent`).
    pub(super) fn begin(
        tracer: &SdkTracer,
        roots: Roots,
        name: &'static str,
        headers: Option<&HeaderMap>,
    ) -> Self {
        let headers = headers.filter(|headers| headers.contains_key("traceparent"));
        let parent = match (headers, roots) {
            (None, Roots::Never) => return Self::none(),
            (None, Roots::Sampled) => Context::new(),
            (Some(headers), _) => TraceContextPropagator::new()
                .extract_with_context(&Context::new(), &Carrier(headers)),
        };
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        let span = tracer.build_with_context(builder, &parent);
        Self(span.is_recording().then(|| Box::new(span)))
    }

    /// Whether attributes are worth being put together.
    pub const fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(name, value));
        }
    }

    /// Ends it. A denial is an answer: only what is an error of the service itself is one here.
    pub fn end(self, result: Result<(), &tonic::Status>) {
        let Some(mut span) = self.0 else {
            return;
        };
        let code = result.map_or_else(tonic::Status::code, |()| tonic::Code::Ok);
        let name = super::CODE_NAMES.get(code as usize).copied();
        span.set_attribute(KeyValue::new(attribute::STATUS, name.unwrap_or_default()));
        if let Err(status) = result
            && is_our_fault(code)
        {
            span.set_status(Status::error(status.message().to_owned()));
        }
        span.end();
    }
}

/// As OpenTelemetry has it for the servers of gRPC.
const fn is_our_fault(code: tonic::Code) -> bool {
    use tonic::Code::{DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown};
    matches!(
        code,
        Unknown | DeadlineExceeded | Unimplemented | Internal | Unavailable | DataLoss
    )
}

struct Carrier<'a>(&'a HeaderMap);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
