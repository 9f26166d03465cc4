//! The figures in words.

use std::time::Duration;

use serde::Serialize;

use super::{super::output, load::Mode, measure::Figures};

/// A mode as it is written.
pub fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Unary => "unary",
        Mode::Session => "session",
        Mode::Health => "health",
    }
}

/// One run.
pub fn figures(f: &Figures) -> String {
    let l = f.latency_micros;
    let latencies = [
        ("p50", l.p50),
        ("p90", l.p90),
        ("p99", l.p99),
        ("p99.9", l.p99_9),
        ("max", l.max),
    ];
    let latencies: Vec<_> = latencies
        .iter()
        .map(|(name, micros)| format!("{name} {}", time(*micros)))
        .collect();
    let errors = if f.errors.is_empty() {
        "none".to_owned()
    } else {
        let each = f
            .errors
            .iter()
            .map(|(code, count)| format!("{count} {code}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let verdicts = if f.granted + f.denied > 0 {
        format!("{} granted, {} denied", f.granted, f.denied)
    } else {
        String::new()
    };
    let reports = if f.reported > 0 {
        f.reported.to_string()
    } else {
        String::new()
    };
    let pairs = [
        ("requests/s", format!("{:.0}", f.requests_per_second)),
        ("latency", latencies.join(", ")),
        ("verdicts", verdicts),
        ("reports", reports),
        ("errors", errors),
        (
            "server CPU",
            f.server_cpu_micros_per_request
                .map_or_else(String::new, per_request),
        ),
        (
            "client busy",
            f.client_busy
                .map_or_else(String::new, |b| format!("{:.0} % of a core", b * 100.0)),
        ),
    ];
    format!(
        "{}: {} requests in {:.1} s\n{}",
        f.mode,
        f.requests,
        f.seconds,
        output::card(&pairs)
    )
}

fn per_request(micros: f64) -> String {
    format!("{micros:.2} µs per request")
}

fn time(micros: u64) -> String {
    let span = Duration::from_micros(micros);
    if micros < 1_000 {
        format!("{micros} µs")
    } else if micros < 1_000_000 {
        format!("{:.2} ms", span.as_secs_f64() * 1e3)
    } else {
        format!("{:.2} s", span.as_secs_f64())
    }
}

/// Two modes in turns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub base: String,
    pub mode: String,
    /// Of each round: the mode's figure divided by the base's; the middle one of them.
    pub median_server_cpu_ratio: Option<f64>,
    pub median_rate_ratio: Option<f64>,
    pub rounds: Vec<(Figures, Figures)>,
}

impl Comparison {
    pub fn new(rounds: Vec<(Figures, Figures)>) -> Self {
        let ratios = |of: fn(&Figures) -> Option<f64>| {
            let each = rounds
                .iter()
                .filter_map(|(base, mode)| Some(of(mode)? / of(base)?));
            median(each.filter(|ratio| ratio.is_finite()).collect())
        };
        let names = rounds
            .first()
            .map(|(base, mode)| (base.mode.clone(), mode.mode.clone()));
        let (base, mode) = names.unwrap_or_default();
        Self {
            base,
            mode,
            median_server_cpu_ratio: ratios(|f| f.server_cpu_micros_per_request),
            median_rate_ratio: ratios(|f| Some(f.requests_per_second)),
            rounds,
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((upper + values.get(middle.checked_sub(1)?)?) / 2.0)
}

/// A line for each round, and the medians.
pub fn comparison(c: &Comparison) -> String {
    let mut text = String::new();
    let cpu = |f: &Figures| {
        let micros = f.server_cpu_micros_per_request;
        micros.map_or_else(String::new, |micros| format!(", {}", per_request(micros)))
    };
    for (number, (base, mode)) in c.rounds.iter().enumerate() {
        text.push_str(&format!("round {}:", number + 1));
        for f in [base, mode] {
            let errors: u64 = f.errors.values().sum();
            let errors = if errors > 0 {
                format!(", {errors} errors")
            } else {
                String::new()
            };
            text.push_str(&format!(
                "  {} {:.0}/s{}{errors}",
                f.mode,
                f.requests_per_second,
                cpu(f)
            ));
        }
        text.push('\n');
    }
    let ratio = |r: Option<f64>| {
        r.map_or_else(
            || "- (needs --server-pid)".to_owned(),
            |r| format!("{r:.2}"),
        )
    };
    let (mode, base) = (&c.mode, &c.base);
    text.push_str(&format!(
        "median of {mode} / {base}: server CPU per request {}, requests/s {}\n",
        ratio(c.median_server_cpu_ratio),
        ratio(c.median_rate_ratio)
    ));
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{super::measure::Latencies, *};

    fn run(mode: &str, cpu: Option<f64>) -> Figures {
        Figures {
            mode: mode.to_owned(),
            seconds: 10.0,
            requests: 1_200_000,
            requests_per_second: 120_000.0,
            granted: 1_199_000,
            denied: 1_000,
            reported: 0,
            errors: BTreeMap::from([("UNAVAILABLE", 3)]),
            latency_micros: Latencies {
                p50: 870,
                p90: 1_250,
                p99: 2_000,
                p99_9: 9_990,
                max: 2_500_000,
            },
            server_cpu_micros_per_request: cpu,
            client_busy: Some(0.97),
        }
    }

    #[test]
    fn a_run_is_shown_with_percentiles_and_errors() {
        assert_eq!(
            figures(&run("unary", Some(6.514))),
            "\
unary: 1200000 requests in 10.0 s
  requests/s   120000
  latency      p50 870 µs, p90 1.25 ms, p99 2.00 ms, p99.9 9.99 ms, max 2.50 s
  verdicts     1199000 granted, 1000 denied
  errors       3 UNAVAILABLE
  server CPU   6.51 µs per request
  client busy  97 % of a core
"
        );
    }

    #[test]
    fn a_comparison_shows_the_median_of_the_ratios() {
        let round = |cpu| (run("health", Some(5.0)), run("unary", Some(cpu)));
        let c = Comparison::new(vec![round(6.0), round(50.0), round(5.5)]);
        let text = comparison(&c);
        assert!(
            text.starts_with("round 1:  health 120000/s, 5.00 µs per request, 3 errors  unary"),
            "{text}"
        );
        assert!(
            text.ends_with(
                "median of unary / health: server CPU per request 1.20, requests/s 1.00\n"
            ),
            "{text}"
        );
        let without = Comparison::new(vec![(run("health", None), run("unary", None))]);
        assert!(comparison(&without).contains("- (needs --server-pid)"));
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_middle_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![1.0, 2.0]), Some(1.5));
    }
}
