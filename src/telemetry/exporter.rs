//! An exporter whose failures are counted, and told once: a collector that is away for a day
//! writes two lines, not thousands.

use std::{
    fmt,
    sync::{
        Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::{Temporality, data::ResourceMetrics, exporter::PushMetricExporter},
    trace::{SpanData, SpanExporter},
};

use super::{Counter, Export, Signal, Telemetry};

/// See the module.
pub(super) struct Watched<Exporter> {
    exporter: Exporter,
    signal: Signal,
    telemetry: Weak<Telemetry>,
    failing: AtomicBool,
}

impl<Exporter> Watched<Exporter> {
    pub fn new(exporter: Exporter, signal: Signal, telemetry: Weak<Telemetry>) -> Self {
        Self {
            exporter,
            signal,
            telemetry,
            failing: AtomicBool::new(false),
        }
    }

    fn note(&self, result: OTelSdkResult) -> OTelSdkResult {
        let export = match &result {
            Ok(()) => Export::Sent,
            Err(_) => Export::Failed,
        };
        if let Some(telemetry) = self.telemetry.upgrade() {
            telemetry.add(Counter::Exported(self.signal, export));
        }
        let failed = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !failed => tracing::warn!(
                signal = ?self.signal, %error,
                "the OTLP collector does not take what it is sent: that is lost, decisions go on; \
                 it is tried again with the next batch"
            ),
            Ok(()) if failed => {
                tracing::info!(signal = ?self.signal, "the OTLP collector takes what it is sent");
            }
            Ok(()) | Err(_) => {}
        }
        result
    }
}

impl<Exporter> fmt::Debug for Watched<Exporter> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("signal", &self.signal)
            .finish_non_exhaustive()
    }
}

impl<Exporter: SpanExporter> SpanExporter for Watched<Exporter> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.note(self.exporter.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<Exporter: PushMetricExporter> PushMetricExporter for Watched<Exporter> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.note(self.exporter.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
