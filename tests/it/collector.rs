//! A collector of our own, and the real service that sends to it.
//!
//! Real processes and real time, since the exporters' threads and the stop are what is tested.
//! What is waited for is a message that arrives.

use std::{
    io::{BufReader, Read},
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use holdoff_client::proto::OutcomeKind;
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{KeyValue, any_value},
    metrics::v1::{Metric, metric::Data, number_data_point},
    trace::v1::Span,
};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use crate::{
    harness::*,
    process::{BINARY, LISTENS, said},
};

/// Far longer than a batch takes on a busy machine.
const WITHIN: Duration = Duration::from_secs(30);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER_SPAN: &str = "b7ad6b7169203331";

#[derive(Clone)]
struct Sink {
    spans: mpsc::UnboundedSender<ExportTraceServiceRequest>,
    metrics: mpsc::UnboundedSender<ExportMetricsServiceRequest>,
}

#[tonic::async_trait]
impl TraceService for Sink {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let _ = self.spans.send(request.into_inner());
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Sink {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let _ = self.metrics.send(request.into_inner());
        Ok(Response::new(Default::default()))
    }
}

struct Collector {
    url: String,
    spans: mpsc::UnboundedReceiver<ExportTraceServiceRequest>,
    metrics: mpsc::UnboundedReceiver<ExportMetricsServiceRequest>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (spans, spans_seen) = mpsc::unbounded_channel();
        let (metrics, metrics_seen) = mpsc::unbounded_channel();
        let sink = Sink { spans, metrics };
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(TraceServiceServer::new(sink.clone()))
                .add_service(MetricsServiceServer::new(sink))
                .serve_with_incoming(incoming),
        );
        Self {
            url,
            spans: spans_seen,
            metrics: metrics_seen,
        }
    }

    /// The next span, with the attributes of who sent it.
    async fn span(&mut self) -> (Vec<KeyValue>, Span) {
        let batch = tokio::time::timeout(WITHIN, self.spans.recv());
        let batch = batch.await.expect("a batch of spans").unwrap();
        let mut batches = batch.resource_spans;
        assert_eq!(batches.len(), 1);
        let one = batches.remove(0);
        let resource = one.resource.unwrap().attributes;
        let mut spans: Vec<Span> = one
            .scope_spans
            .into_iter()
            .flat_map(|it| it.spans)
            .collect();
        assert_eq!(spans.len(), 1, "{spans:?}");
        (resource, spans.remove(0))
    }

    async fn metrics(&mut self) -> Vec<Metric> {
        let batch = tokio::time::timeout(WITHIN, self.metrics.recv());
        let batch = batch.await.expect("a batch of metrics").unwrap();
        let scopes = batch
            .resource_metrics
            .into_iter()
            .flat_map(|it| it.scope_metrics);
        scopes.flat_map(|scope| scope.metrics).collect()
    }
}

struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--http", "off", "--workers", "1", "--drain", "1s"]);
        command.args(["--listen", "127.0.0.1:0"]);
        for (name, _) in std::env::vars() {
            if name.starts_with("HOLDOFF_") || name.starts_with("OTEL_") {
                command.env_remove(name);
            }
        }
        command
            .envs(environment.iter().copied())
            .env("RUST_LOG", "info");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let url = format!("http://{}", said(&mut out, LISTENS, String::new));
        Self { child, url }
    }

    /// SIGTERM; returns what it logged. The collector goes on meanwhile.
    async fn stop(self) -> String {
        let stopped = tokio::task::spawn_blocking(move || self.stop_now());
        stopped.await.unwrap()
    }

    fn stop_now(mut self) -> String {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.unwrap().success());
        let mut logged = String::new();
        let mut lines = BufReader::new(self.child.stderr.take().unwrap());
        lines.read_to_string(&mut logged).unwrap();
        assert!(self.child.wait().unwrap().success(), "{logged}");
        logged
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn traced<T>(message: T, flags: &str) -> Request<T> {
    let mut request = Request::new(message);
    let parent = format!("00-{TRACE}-{CALLER_SPAN}-{flags}");
    request
        .metadata_mut()
        .insert("traceparent", parent.parse().unwrap());
    request
}

fn text_of<'a>(attributes: &'a [KeyValue], name: &str) -> &'a str {
    let found = attributes.iter().find(|it| it.key == name);
    let value = found.and_then(|it| it.value.as_ref()?.value.as_ref());
    match value {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{name}: {other:?} in {attributes:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_traced_caller_finds_the_decision_in_its_trace_and_nobody_else_pays() {
    let mut collector = Collector::start();
    let service = Serving::start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        ),
        ("OTEL_METRICS_EXPORTER", "none"),
    ]);
    let mut client = Client::connect(&service.url).await;
    // Without a trace, and in one that is not sampled: no span.
    client.granted(first("quiet")).await;
    client
        .asks
        .acquire(traced(first("unsampled"), "00"))
        .await
        .unwrap();
    client
        .asks
        .acquire(traced(first("payments"), "01"))
        .await
        .unwrap();
    let (resource, span) = collector.span().await;
    assert_eq!(text_of(&resource, "service.name"), "holdoff");
    assert_eq!(text_of(&resource, "deployment.environment.name"), "test");
    assert_eq!(
        text_of(&resource, "service.version"),
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(
        (hex(&span.trace_id), hex(&span.parent_span_id)),
        (TRACE.into(), CALLER_SPAN.into())
    );
    assert_eq!(span.name, "holdoff.v1.CoordinatorService/Acquire");
    for (name, value) in [
        ("rpc.system.name", "grpc"),
        ("rpc.method", "holdoff.v1.CoordinatorService/Acquire"),
        ("rpc.response.status_code", "OK"),
        ("holdoff.namespace", "default"),
        ("holdoff.dependency", "payments"),
        ("holdoff.verdict", "granted"),
        ("holdoff.reason", "first"),
        ("holdoff.state", "closed"),
    ] {
        assert_eq!(text_of(&span.attributes, name), value, "{name}");
    }
    let granted = client.granted(first("payments")).await;
    let denied = retry("payments", 2, &granted.permit, OutcomeKind::Rejected);
    client.asks.acquire(traced(denied, "01")).await.unwrap();
    let (_, span) = collector.span().await;
    assert_eq!(text_of(&span.attributes, "holdoff.verdict"), "denied");
    assert_eq!(text_of(&span.attributes, "holdoff.reason"), "not_retryable");
    // Of what was refused nothing is said but that: its names are the caller's text.
    let hostile = first(&"x".repeat(10_000));
    client
        .asks
        .acquire(traced(hostile, "01"))
        .await
        .unwrap_err();
    let (_, span) = collector.span().await;
    let status = text_of(&span.attributes, "rpc.response.status_code");
    assert_eq!(status, "INVALID_ARGUMENT");
    let length: usize = span
        .attributes
        .iter()
        .map(prost::Message::encoded_len)
        .sum();
    assert!(length < 1_000, "{span:?}");
    // What the batch still holds when the service is told to stop is sent all the same.
    let report = holdoff_client::proto::ReportRequest {
        entries: vec![result(&granted.permit, outcome(OutcomeKind::Success))],
        caller: caller("a"),
        ..Default::default()
    };
    client.asks.report(traced(report, "01")).await.unwrap();
    let logged = service.stop().await;
    let (_, span) = collector.span().await;
    assert_eq!(span.name, "holdoff.v1.CoordinatorService/Report");
    assert_eq!(text_of(&span.attributes, "holdoff.reason"), "duplicate");
    assert_eq!(text_of(&span.attributes, "holdoff.caller.service"), "tests");
    assert!(
        collector.spans.try_recv().is_err(),
        "more than was asked for"
    );
    assert!(!logged.contains("WARN"), "{logged}");
}

#[tokio::test]
async fn a_collector_is_sent_the_same_metrics_as_a_scrape_shows() {
    let mut collector = Collector::start();
    let service = Serving::start(&[
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &collector.url),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ]);
    let mut client = Client::connect(&service.url).await;
    client.granted(first("payments")).await;
    client.refused(first("")).await;
    let points = |metrics: &[Metric], name: &str| -> Vec<(Vec<KeyValue>, f64)> {
        let Some(metric) = metrics.iter().find(|metric| metric.name == name) else {
            return Vec::new();
        };
        let points = match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => &sum.data_points,
            Data::Gauge(gauge) => &gauge.data_points,
            other => panic!("{other:?}"),
        };
        let number = |value: &Option<number_data_point::Value>| match value {
            Some(number_data_point::Value::AsDouble(value)) => *value,
            other => panic!("{other:?}"),
        };
        let read = points
            .iter()
            .map(|it| (it.attributes.clone(), number(&it.value)));
        read.collect()
    };
    let granted = |metrics: &[Metric]| {
        let decisions = points(metrics, "holdoff.decisions");
        let first = decisions.iter().find(|(labels, _)| {
            text_of(labels, "verdict") == "granted" && text_of(labels, "reason") == "first"
        });
        first.map_or(0.0, |(_, value)| *value)
    };
    let mut seen = collector.metrics().await;
    while granted(&seen) < 1.0 {
        seen = collector.metrics().await;
    }
    let missing: Vec<&str> = holdoff::telemetry::table::ALL
        .iter()
        .flat_map(|(_, part)| part.iter())
        .filter(|metric| metric.name != "holdoff_grant_delay_seconds")
        .filter(|metric| !seen.iter().any(|it| it.name == metric.otel))
        .map(|metric| metric.name)
        .collect();
    // No grant of this test has a delay, and a histogram of the SDK begins with its first value.
    assert!(missing.is_empty(), "{missing:?}");
    let named = points(&seen, "holdoff.dependency.state");
    assert_eq!(text_of(&named[0].0, "dependency"), "payments");
    let rpcs = seen
        .iter()
        .find(|it| it.name == "rpc.server.call.duration")
        .unwrap();
    assert_eq!(rpcs.unit, "s");
    let Some(Data::Histogram(histogram)) = &rpcs.data else {
        panic!("{rpcs:?}");
    };
    let codes: Vec<&str> = histogram
        .data_points
        .iter()
        .map(|point| text_of(&point.attributes, "rpc.response.status_code"))
        .collect();
    assert!(
        codes.contains(&"OK") && codes.contains(&"INVALID_ARGUMENT"),
        "{codes:?}"
    );
    service.stop().await;
}

#[tokio::test]
async fn a_collector_that_is_away_is_told_once_and_slows_nothing() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let service = Serving::start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &url),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "200"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "20"),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
        ("OTEL_TRACES_SAMPLER", "always_on"),
    ]);
    let mut client = Client::connect(&service.url).await;
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        client.granted(first("payments")).await;
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    let stopping = Instant::now();
    drop(client);
    let logged = service.stop().await;
    assert!(
        stopping.elapsed() < Duration::from_secs(8),
        "{:?}",
        stopping.elapsed()
    );
    let warned = logged
        .lines()
        .filter(|line| line.contains("OTLP collector"))
        .count();
    // Once for each signal, and once that the last batch was lost.
    assert!((1..=3).contains(&warned), "{logged}");
}

#[test]
fn a_variable_that_cannot_be_used_stops_the_start_with_its_name() {
    let run = Command::new(BINARY)
        .args(["serve", "--listen", "127.0.0.1:0", "--http", "off"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .env("OTEL_TRACES_SAMPLER", "sometimes")
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("OTEL_TRACES_SAMPLER=sometimes"), "{said}");
    assert!(said.contains("parentbased_traceidratio"), "{said}");
    assert!(run.stdout.is_empty(), "it announced itself first");
}
