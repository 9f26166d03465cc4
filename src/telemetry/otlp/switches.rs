//! What the standard variables say: whether to send metrics and spans, and which spans.
//!
//! The endpoint, headers, timeouts, compression and intervals are read by OpenTelemetry's own
//! code, and only looked at before (`values`). Read here is what has another default
//! here: with no variable set nothing is sent, and only those spans are made whose caller is
//! traced, so that a service that is only pointed at a collector pays nothing for each call.

use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::trace::Sampler;

use super::values;
use crate::telemetry::trace::Roots;

const GRPC: &str = "grpc";
const SAMPLERS: &str = "always_on, always_off, traceidratio, parentbased_always_on, \
                        parentbased_always_off, parentbased_traceidratio";

/// What is sent.
#[derive(Clone, Debug)]
pub struct Switches {
    pub(super) metrics: bool,
    pub(super) traces: Option<Sampling>,
}

#[derive(Clone, Debug)]
pub(super) struct Sampling {
    pub sampler: Sampler,
    pub roots: Roots,
}

/// A variable whose value cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Misconfigured(String);

impl Misconfigured {
    pub(super) fn exporter(error: &ExporterBuildError) -> Self {
        Self(format!("OTEL_EXPORTER_OTLP_…: {error}"))
    }

    pub(super) fn value(name: &str, value: &str, allowed: &str) -> Self {
        Self(format!("{name}={value}: {allowed}"))
    }

    pub(super) fn thread(error: std::io::Error) -> Self {
        Self(format!("no thread for the OTLP exporter: {error}"))
    }
}

impl Switches {
    /// `None`: nothing is sent.
    ///
    /// # Errors
    /// The variable, its value and what is allowed.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Misconfigured> {
        let said = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        if let Some(text) = said("OTEL_SDK_DISABLED") {
            if !values::is_switch(&text) {
                let refused = Misconfigured::value("OTEL_SDK_DISABLED", &text, "true or false");
                return Err(refused);
            }
            if text.eq_ignore_ascii_case("true") {
                return Ok(None);
            }
        }
        let metrics = is_sent(&said, "METRICS")?;
        let traces = match is_sent(&said, "TRACES")? {
            true => Some(sampling(&said)?),
            false => None,
        };
        Ok((metrics || traces.is_some()).then_some(Self { metrics, traces }))
    }

    pub fn sends_metrics(&self) -> bool {
        self.metrics
    }
}

fn is_sent(said: &impl Fn(&str) -> Option<String>, signal: &str) -> Result<bool, Misconfigured> {
    let exporter = format!("OTEL_{signal}_EXPORTER");
    match said(&exporter).as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(false),
        Some(other) => {
            return Err(Misconfigured(format!(
                "{exporter}={other}: only otlp and none are there; /metrics is always served"
            )));
        }
    }
    let of_signal = |what: &str| format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
    let own = [&of_signal("ENDPOINT"), "OTEL_EXPORTER_OTLP_ENDPOINT"];
    if own.iter().all(|name| said(name).is_none()) {
        return Ok(false);
    }
    for name in [&of_signal("PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        match said(name).as_deref() {
            None => {}
            Some(GRPC) => break,
            Some(other) => {
                return Err(Misconfigured(format!(
                    "{name}={other}: only {GRPC} is spoken; collectors listen for it on port 4317"
                )));
            }
        }
    }
    values::check(said, signal)?;
    Ok(true)
}

fn sampling(said: &impl Fn(&str) -> Option<String>) -> Result<Sampling, Misconfigured> {
    let named = said("OTEL_TRACES_SAMPLER");
    let ratio = || {
        let written = said("OTEL_TRACES_SAMPLER_ARG").unwrap_or_else(|| "1".to_owned());
        let ratio = written.parse::<f64>().ok();
        ratio
            .filter(|ratio| (0.0..=1.0).contains(ratio))
            .ok_or_else(|| {
                Misconfigured(format!(
                    "OTEL_TRACES_SAMPLER_ARG={written}: a share of traces from 0 to 1"
                ))
            })
    };
    let by_parent = |root| Sampler::ParentBased(Box::new(root));
    let (sampler, roots) = match named.as_deref() {
        None | Some("parentbased_always_off") => (by_parent(Sampler::AlwaysOff), Roots::Never),
        Some("always_on") => (Sampler::AlwaysOn, Roots::Sampled),
        Some("always_off") => (Sampler::AlwaysOff, Roots::Never),
        Some("traceidratio") => (Sampler::TraceIdRatioBased(ratio()?), Roots::Sampled),
        Some("parentbased_always_on") => (by_parent(Sampler::AlwaysOn), Roots::Sampled),
        Some("parentbased_traceidratio") => (
            by_parent(Sampler::TraceIdRatioBased(ratio()?)),
            Roots::Sampled,
        ),
        Some(other) => {
            return Err(Misconfigured(format!(
                "OTEL_TRACES_SAMPLER={other}: one of {SAMPLERS}"
            )));
        }
    };
    Ok(Sampling { sampler, roots })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");

    fn read(set: &[(&str, &str)]) -> Result<Option<Switches>, Misconfigured> {
        Switches::read(|name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_is_sent_without_an_endpoint() {
        assert!(read(&[]).unwrap().is_none());
        assert!(
            read(&[("OTEL_TRACES_SAMPLER", "always_on")])
                .unwrap()
                .is_none()
        );
        assert!(
            read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")])
                .unwrap()
                .is_none()
        );
        let both = read(&[ENDPOINT]).unwrap().unwrap();
        assert!(both.metrics && both.traces.is_some());
        let metrics = read(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]);
        assert!(metrics.unwrap().unwrap().traces.is_none());
        let of_signal = (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://127.0.0.1:4317",
        );
        let traces = read(&[of_signal]).unwrap().unwrap();
        assert!(!traces.metrics && traces.traces.is_some());
    }

    #[test]
    fn unless_it_is_said_otherwise_only_traced_callers_are_traced() {
        let said = read(&[ENDPOINT]).unwrap().unwrap().traces.unwrap();
        assert_eq!(said.roots, Roots::Never);
        let set = [
            ENDPOINT,
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.01"),
        ];
        let said = read(&set).unwrap().unwrap().traces.unwrap();
        assert_eq!(said.roots, Roots::Sampled);
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_variable_and_its_value() {
        for (set, names) in [
            (("OTEL_TRACES_SAMPLER", "xray"), "always_on"),
            (("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"), "grpc"),
            (("OTEL_METRICS_EXPORTER", "prometheus"), "otlp and none"),
        ] {
            let Misconfigured(text) = read(&[ENDPOINT, set]).unwrap_err();
            assert!(text.starts_with(&format!("{}={}", set.0, set.1)), "{text}");
            assert!(text.contains(names), "{text}");
        }
        let ratio = ("OTEL_TRACES_SAMPLER", "traceidratio");
        let Misconfigured(text) =
            read(&[ENDPOINT, ratio, ("OTEL_TRACES_SAMPLER_ARG", "7")]).unwrap_err();
        assert_eq!(
            text,
            "OTEL_TRACES_SAMPLER_ARG=7: a share of traces from 0 to 1"
        );
        let Misconfigured(text) = read(&[("OTEL_SDK_DISABLED", "yes")]).unwrap_err();
        assert_eq!(text, "OTEL_SDK_DISABLED=yes: true or false");
        let spoken = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
        let web = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        let none = ("OTEL_METRICS_EXPORTER", "none");
        assert!(read(&[ENDPOINT, spoken, web, none]).is_ok());
    }

    /// Each variable that OpenTelemetry's own code reads, with values that it would pass over and
    /// values that it takes.
    const VARIABLES: [(&str, &[&str], &[&str]); 15] = [
        (
            "OTEL_EXPORTER_OTLP_*ENDPOINT",
            &[
                "garbage",
                "127.0.0.1:4317",
                "ftp://h:1",
                "http://",
                "http:// h",
                "http://h:0",
                "http://h:65536",
                "http://9:99999",
                "http://[::1]:99999/x",
            ],
            &[
                "http://h:4317",
                "https://h",
                "http://h:65535",
                "http://a:b@h",
                "http://[::1]:4317/x",
            ],
        ),
        (
            "OTEL_EXPORTER_OTLP_*TIMEOUT",
            &["x", "0", "-1", "10s", "1.5"],
            &["1", "10000"],
        ),
        (
            "OTEL_EXPORTER_OTLP_*COMPRESSION",
            &["zstd", "1"],
            &["gzip", "GZIP", "none"],
        ),
        ("OTEL_EXPORTER_OTLP_*INSECURE", &["yes"], &["true", "False"]),
        (
            "OTEL_EXPORTER_OTLP_*HEADERS",
            &["nonsense", "a=1,b", "a b=1", "=1"],
            &["a=1", "a=1, b=2=3", "authorization=Bearer%20x"],
        ),
        ("OTEL_METRIC_EXPORT_INTERVAL", &["abc", "0"], &["60000"]),
        ("OTEL_METRIC_EXPORT_TIMEOUT", &["abc"], &["1"]),
        (
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            &["sum"],
            &["delta", "Cumulative"],
        ),
        ("OTEL_BSP_SCHEDULE_DELAY", &["soon"], &["50"]),
        ("OTEL_BSP_EXPORT_TIMEOUT", &["-1"], &["1"]),
        ("OTEL_BSP_MAX_QUEUE_SIZE", &["0"], &["2048"]),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", &["many"], &["512"]),
        ("OTEL_BSP_MAX_CONCURRENT_EXPORTS", &["0"], &["1"]),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", &["-1"], &["0"]),
        ("OTEL_RESOURCE_ATTRIBUTES", &["a"], &["a=b,c=d"]),
    ];

    #[test]
    fn no_value_is_passed_over_without_a_word() {
        for (pattern, wrong, right) in VARIABLES {
            for signal in ["", "TRACES_", "METRICS_"] {
                let name = pattern.replace('*', signal);
                for value in wrong {
                    let Misconfigured(text) = read(&[(&name, value), ENDPOINT]).unwrap_err();
                    let shown = if name.ends_with("HEADERS") {
                        "…"
                    } else {
                        value
                    };
                    assert!(text.starts_with(&format!("{name}={shown}: ")), "{text}");
                }
                for value in right {
                    let read = read(&[(&name, value), ENDPOINT]);
                    assert!(read.is_ok(), "{name}={value}: {read:?}");
                }
            }
        }
    }

    #[test]
    fn a_value_that_does_not_count_is_not_looked_at() {
        for set in [
            // There is nothing to send.
            vec![("OTEL_METRIC_EXPORT_INTERVAL", "abc")],
            vec![
                ENDPOINT,
                ("OTEL_SDK_DISABLED", "true"),
                ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ],
            vec![
                ENDPOINT,
                ("OTEL_TRACES_EXPORTER", "none"),
                ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ],
            // Each signal has its own.
            vec![
                ENDPOINT,
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "x"),
                ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1"),
                ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1"),
            ],
            // Its scheme is said elsewhere.
            vec![
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4317"),
                ("OTEL_EXPORTER_OTLP_INSECURE", "true"),
            ],
        ] {
            assert!(read(&set).is_ok(), "{set:?}");
        }
    }
}
