//! Metrics and spans to an OpenTelemetry collector, where the standard variables name one.
//!
//! The connection lives on a thread and a runtime of its own, spans are sent in batches and
//! metrics are read by a thread of the SDK: nothing of it runs where decisions are made, and a
//! collector that is away costs what does not fit in the queue of spans.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use opentelemetry::{
    Key, KeyValue,
    metrics::{AsyncInstrument, Histogram, Meter, MeterProvider as _},
    trace::TracerProvider as _,
};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter};
use opentelemetry_sdk::{
    Resource,
    metrics::SdkMeterProvider,
    trace::{SdkTracer, SdkTracerProvider},
};
use tokio::sync::oneshot;

use super::{
    CODE_NAMES, Family, Method, Metric, RpcSpan, Signal, Telemetry, Timed, Value, attribute,
    exporter::Watched, histogram, table, table::Kind, trace,
};

mod switches;
mod values;

pub use switches::{Misconfigured, Switches};

const SCOPE: &str = "holdoff";
/// At the end of the process what waits is sent within so long, or lost.
const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// The way to a collector. See the module.
#[derive(Debug)]
pub struct Otlp {
    tracer: Option<(SdkTracer, trace::Roots)>,
    histograms: Option<Histograms>,
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    /// Ends the thread of the connection when it is dropped.
    _connection: oneshot::Sender<()>,
}

/// What cannot be observed as a sum is recorded: the SDK has no histogram that is read.
#[derive(Debug)]
struct Histograms {
    rpc: Histogram<f64>,
    timed: [Histogram<f64>; Timed::ALONE],
}

impl Otlp {
    /// Begins to send what `switches` say. `gather` reads all metrics but the histograms.
    ///
    /// # Errors
    /// A variable has a value that cannot be used.
    pub fn start(
        switches: Switches,
        telemetry: &Arc<Telemetry>,
        gather: impl Fn() -> Vec<Family> + Send + Sync + 'static,
    ) -> Result<Self, Misconfigured> {
        let (connection, handle) = connection().map_err(Misconfigured::thread)?;
        let _inside = handle.enter();
        let resource = resource();
        let metrics = match switches.metrics {
            false => None,
            true => {
                let exporter = MetricExporter::builder()
                    .with_tonic()
                    .build()
                    .map_err(built)?;
                let exporter = Watched::new(exporter, Signal::Metrics, Arc::downgrade(telemetry));
                let provider = SdkMeterProvider::builder()
                    .with_periodic_exporter(exporter)
                    .with_resource(resource.clone());
                Some(provider.build())
            }
        };
        let traces = match &switches.traces {
            None => None,
            Some(sampling) => {
                let exporter = SpanExporter::builder()
                    .with_tonic()
                    .build()
                    .map_err(built)?;
                let exporter = Watched::new(exporter, Signal::Traces, Arc::downgrade(telemetry));
                let provider = SdkTracerProvider::builder()
                    .with_batch_exporter(exporter)
                    .with_sampler(sampling.sampler.clone())
                    .with_resource(resource);
                Some(provider.build())
            }
        };
        let histograms = metrics.as_ref().map(|provider| {
            let meter = provider.meter(SCOPE);
            observe(&meter, gather);
            histograms(&meter)
        });
        let roots = switches.traces.map(|sampling| sampling.roots);
        let tracer = traces.as_ref().map(|provider| provider.tracer(SCOPE));
        Ok(Self {
            tracer: tracer.zip(roots),
            histograms,
            traces,
            metrics,
            _connection: connection,
        })
    }

    pub(super) fn time(&self, timed: Timed, took: Duration) {
        if let Some(histograms) = &self.histograms {
            histograms.timed[timed as usize].record(took.as_secs_f64(), &[]);
        }
    }

    pub(super) fn rpc(&self, method: Method, code: usize, took: Duration) {
        if let Some(histograms) = &self.histograms {
            let attributes = [
                KeyValue::new(attribute::SYSTEM, attribute::GRPC),
                KeyValue::new(attribute::METHOD, method.name()),
                KeyValue::new(attribute::STATUS, CODE_NAMES[code]),
            ];
            histograms.rpc.record(took.as_secs_f64(), &attributes);
        }
    }

    pub(super) fn span(&self, name: &'static str, headers: Option<&http::HeaderMap>) -> RpcSpan {
        match &self.tracer {
            Some((tracer, roots)) => RpcSpan::begin(tracer, *roots, name, headers),
            None => RpcSpan::none(),
        }
    }

    /// Sends what waits, for [`FLUSH_WITHIN`] at most, and ends.
    pub(super) fn end(&self) {
        let (traces, metrics) = (self.traces.clone(), self.metrics.clone());
        let (done, ended) = mpsc::channel();
        let flush = move || {
            // What cannot be sent has been counted and told by then.
            let _ = traces.map(|traces| traces.shutdown_with_timeout(FLUSH_WITHIN));
            let _ = metrics.map(|metrics| metrics.shutdown_with_timeout(FLUSH_WITHIN));
            let _ = done.send(());
        };
        let begun = thread::Builder::new().name("otlp-end".into()).spawn(flush);
        if begun.is_err() || ended.recv_timeout(FLUSH_WITHIN).is_err() {
            tracing::warn!(
                "the OTLP collector did not take the last batch within {FLUSH_WITHIN:?}"
            );
        }
    }
}

/// The thread that the connection to the collector lives on, until the sender is dropped.
fn connection() -> std::io::Result<(oneshot::Sender<()>, tokio::runtime::Handle)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    let (end, ended) = oneshot::channel();
    let run = move || {
        // Dropped or sent: both mean the end.
        let _ = runtime.block_on(ended);
    };
    thread::Builder::new().name("otlp".into()).spawn(run)?;
    Ok((end, handle))
}

fn built(error: ExporterBuildError) -> Misconfigured {
    Misconfigured::exporter(&error)
}

/// What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say, and where they say nothing, ours.
fn resource() -> Resource {
    let said = Resource::builder().build();
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let own = [
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        (
            "service.instance.id",
            format!("{host}-{}", std::process::id()),
        ),
        ("host.name", host),
    ];
    let mut resource = Resource::builder();
    for (key, value) in own {
        if said.get(&Key::new(key)).is_none() {
            resource = resource.with_attribute(KeyValue::new(key, value));
        }
    }
    let name = said.get(&Key::new("service.name"));
    // What the SDK calls a service that nobody named.
    let is_named = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    match is_named {
        true => resource.build(),
        false => resource.with_service_name(SCOPE).build(),
    }
}

fn histograms(meter: &Meter) -> Histograms {
    let make = |metric: &Metric| {
        meter
            .f64_histogram(metric.otel)
            .with_unit(metric.unit)
            .with_description(metric.help)
            .with_boundaries(histogram::bounds().to_vec())
            .build()
    };
    Histograms {
        rpc: make(&table::RPC_DURATION),
        timed: Timed::ALL.map(|timed| make(timed.metric())),
    }
}

/// An observable instrument for each metric of the table that is no histogram.
fn observe(meter: &Meter, gather: impl Fn() -> Vec<Family> + Send + Sync + 'static) {
    let gathered = Arc::new(Gathered {
        gather: Box::new(gather),
        last: Mutex::default(),
    });
    for metric in table::ALL.iter().flat_map(|(_, part)| part.iter().copied()) {
        let gathered = Arc::clone(&gathered);
        let read = move |to: &dyn AsyncInstrument<f64>| gathered.observe(metric, to);
        match metric.kind {
            Kind::Histogram => continue,
            Kind::Counter => {
                let _ = meter
                    .f64_observable_counter(metric.otel)
                    .with_unit(metric.unit)
                    .with_description(metric.help)
                    .with_callback(read)
                    .build();
            }
            Kind::Gauge => {
                let _ = meter
                    .f64_observable_gauge(metric.otel)
                    .with_unit(metric.unit)
                    .with_description(metric.help)
                    .with_callback(read)
                    .build();
            }
        }
    }
}

/// The SDK asks for one metric after the other; all of one round are of one reading.
struct Gathered {
    gather: Box<dyn Fn() -> Vec<Family> + Send + Sync>,
    last: Mutex<Reading>,
}

#[derive(Default)]
struct Reading {
    families: BTreeMap<&'static str, Family>,
    /// Who has been told of it: who asks again begins a new round.
    told: BTreeSet<&'static str>,
}

impl Gathered {
    fn observe(&self, metric: &'static Metric, to: &dyn AsyncInstrument<f64>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.families.is_empty() || !last.told.insert(metric.name) {
            let families = (self.gather)().into_iter();
            last.families = families.map(|it| (it.metric.name, it)).collect();
            last.told = BTreeSet::from([metric.name]);
        }
        let Some(family) = last.families.get(metric.name) else {
            return;
        };
        for (labels, value) in &family.series {
            let value = match value {
                Value::Whole(value) => *value as f64,
                Value::Number(value) => *value,
                Value::Times(_) => continue,
            };
            let pairs = metric.labels.iter().zip(labels);
            let attributes: Vec<KeyValue> = pairs
                .map(|(name, text)| KeyValue::new(*name, text.clone()))
                .collect();
            to.observe(value, &attributes);
        }
    }
}
