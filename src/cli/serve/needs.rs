//! Flags of `serve` that only mean something beside another: alone they are refused, since whoever
//! gives one would go by what it does not do.

use std::fmt::Display;

use clap::ValueEnum;

use super::{Http, Lasts, ServeArgs};
use crate::{
    cli::{exit::Failure, size, span},
    settings::{MetricsDependencies, StoreSettings},
};

/// One that was given, and whether what it needs is there.
struct Need {
    flag: &'static str,
    /// `None`: it was not given.
    value: Option<String>,
    is_met: bool,
    /// What it does without that, and what to do.
    otherwise: &'static str,
}

/// # Errors
/// [`Failure::Usage`] for the first flag that would do nothing: its name, its value, and what it
/// needs.
pub fn check(args: &ServeArgs, sends_metrics: bool) -> Result<(), Failure> {
    let is_shared = match args.store {
        StoreSettings::Shared(..) => true,
        StoreSettings::Memory => false,
    };
    let has_names = args.access.is_some() || args.tls_client_ca.is_some();
    let needs = [
        Need {
            flag: "--store-decisions",
            value: word(args.store_decisions),
            is_met: is_shared,
            otherwise: "there is no store that replicas share; give --store URL, or leave it out",
        },
        Need {
            flag: "--record-max",
            value: args.record_max.map(size::human),
            is_met: args.record.is_some(),
            otherwise: "nothing is recorded without --record DIR",
        },
        Need {
            flag: "--record-files",
            value: text(args.record_files),
            is_met: args.record.is_some(),
            otherwise: "nothing is recorded without --record DIR",
        },
        Need {
            flag: "--tls-clients",
            value: word(args.tls_clients),
            is_met: args.tls_client_ca.is_some(),
            otherwise: "clients are asked for no certificate; give --tls-client-ca FILE, or leave it \
                        out",
        },
        Need {
            flag: "--http-host",
            value: args.http_host.first().cloned(),
            is_met: args.http != Http::Off,
            otherwise: "nothing is served over HTTP with --http off; give --http HOST:PORT, or leave \
                        it out",
        },
        Need {
            flag: "--metrics-dependencies",
            value: args.metrics_dependencies.map(written),
            is_met: args.http != Http::Off || sends_metrics,
            otherwise: "metrics go nowhere with --http off; give --http HOST:PORT, name a collector \
                        (OTEL_EXPORTER_OTLP_ENDPOINT), or leave it out",
        },
        Need {
            flag: "--max-sessions-per-principal",
            value: text(args.max_sessions_per_principal),
            is_met: has_names,
            otherwise: "nobody has a name here; give --access FILE or --tls-client-ca FILE, or leave \
                        it out",
        },
        Need {
            flag: "--max-connection-age-grace",
            value: args.max_connection_age_grace.map(span::human),
            is_met: args.max_connection_age != Lasts::ForEver,
            otherwise: "no connection is told to go for its age; give --max-connection-age DURATION, \
                        or leave it out",
        },
    ];
    let unmet = |need: Need| {
        Some((
            need.flag,
            need.value.filter(|_| !need.is_met)?,
            need.otherwise,
        ))
    };
    match needs.into_iter().find_map(unmet) {
        None => Ok(()),
        Some((flag, value, otherwise)) => {
            Err(Failure::Usage(format!("{flag} {value}: {otherwise}")))
        }
    }
}

fn text(value: Option<impl Display>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn written(which: MetricsDependencies) -> String {
    match which {
        MetricsDependencies::Off => "off".to_owned(),
        MetricsDependencies::Top(count) => format!("top-{count}"),
        MetricsDependencies::All => "all".to_owned(),
    }
}

/// As it is written on the command line.
fn word(value: Option<impl ValueEnum>) -> Option<String> {
    Some(value?.to_possible_value()?.get_name().to_owned())
}
