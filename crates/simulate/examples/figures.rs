//! Prints the figures of a scenario file: `figures FILE CLIENTS SEEDS STRATEGY…`, with the policy
//! of the headline scenario of that name, or the defaults.

use std::time::Instant;

use holdoff_decision::{Nanos, Policy};
use holdoff_simulate::{Scenario, Strategy, reference, run};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = std::fs::read_to_string(&args[0]).expect("a scenario file");
    let mut scenario: Scenario = serde_saphyr::from_str(&text).expect("a scenario");
    if args[1] != "-" {
        scenario.clients = args[1].parse().expect("a number of clients");
    }
    let seeds: Vec<u64> = (1..=args[2].parse().expect("a number of seeds")).collect();
    let mut policy = match scenario.name.as_str() {
        "herd" => reference::herd(Nanos::from_secs(1)),
        "storm" => reference::storm(),
        _ => {
            let mut policy = Policy::default();
            policy.breaker.open_for = Nanos::from_secs(2);
            policy.breaker.open_max = Nanos::from_secs(2);
            policy.breaker.open_multiplier = 1.0;
            policy.breaker.spread = Nanos::from_millis(500);
            if scenario.name == "brownout" {
                policy.breaker.applies_to = holdoff_decision::policy::AppliesTo::Auto;
            }
            if scenario.name == "mass-restart" {
                policy = reference::herd(Nanos::from_secs(1));
            }
            if scenario.name == "throttling" {
                policy.retry.max_attempts = holdoff_decision::policy::MaxAttempts::Limited(5);
                policy.rate = Some(holdoff_decision::policy::Rate {
                    per_second: 99.0,
                    burst: 20,
                    max_wait: Nanos::from_secs(3),
                    per_caller: false,
                });
            }
            policy
        }
    };
    if let Ok(ms) = std::env::var("RAMP_MS") {
        policy.ramp.step = Nanos::from_millis(ms.parse().unwrap());
    }
    if let Ok(ms) = std::env::var("SPREAD_MS") {
        policy.breaker.spread = Nanos::from_millis(ms.parse().unwrap());
    }
    if let Ok(ms) = std::env::var("HORIZON_MS") {
        policy.ramp.horizon = Nanos::from_millis(ms.parse().unwrap());
    }
    if let Ok(n) = std::env::var("SUCC") {
        policy.breaker.probe_successes = n.parse().unwrap();
    }
    let named: Vec<Strategy> = args[3..]
        .iter()
        .filter_map(|it| Strategy::from_name(it))
        .collect();
    let strategies = if named.is_empty() {
        if scenario.strategies.is_empty() {
            Strategy::ALL.to_vec()
        } else {
            scenario.strategies.clone()
        }
    } else {
        named
    };
    for strategy in strategies {
        let began = Instant::now();
        let plan = run::Plan {
            scenario: &scenario,
            strategies: &[strategy],
            policy: &policy,
            seeds: &seeds,
            threads: 1,
        };
        let results = run::run(&plan, &|_| ()).expect("a valid scenario");
        let it = &results.strategies[0];
        let (f, c) = (&it.figures, &it.counters);
        println!(
            "{:16} down {:9.0} peak {:6.2} {:6.2} C  T99 {:>6} opens {:>6} half {:>6} all {:>6} wasted {:9.0} goodput {:.4} failed after {:.4} ampl {:.2} q {:.0} alone {:.0} rejected {:.0} | {:.2?}",
            strategy.name(),
            c.calls_while_down,
            f.peak_per_second / results.capacity_per_second,
            f.peak_100ms_per_second / results.capacity_per_second,
            shown(f.recovers_within_s),
            shown(f.opens_within_s),
            shown(f.half_served_s),
            shown(f.nearly_all_served_s),
            c.calls_wasted,
            f.goodput.unwrap_or(0.0),
            f.failed_after.unwrap_or(0.0),
            f.amplification.unwrap_or(0.0),
            c.questions,
            c.decided_alone,
            c.rejected_for_load,
            began.elapsed(),
        );
        if std::env::var_os("SERIES").is_some() {
            let s = &it.series;
            for k in 0..s.calls_per_second.len() {
                println!(
                    "{:.1} {:6.0} calls {:6.0} good {:6.0} late {:?}",
                    k as f64 * s.bucket_s,
                    s.calls_per_second[k],
                    s.goodput_per_second[k],
                    s.late[k],
                    s.state.get(k)
                );
            }
        }
        for verdict in results.verdicts {
            println!(
                "    {} {}: {} ({})",
                if verdict.holds { "ok " } else { "NOT" },
                verdict.assertion,
                verdict.found,
                verdict.wanted
            );
        }
    }
}

fn shown(seconds: Option<f64>) -> String {
    seconds.map_or("never".to_owned(), |it| format!("{it:.2}"))
}
