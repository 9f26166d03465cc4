//! The same seed gives the same results, and nothing is lost on the way.

use holdoff_decision::Policy;
use holdoff_simulate::{Results, Scenario, Strategy, run};

use crate::scenarios::{SHIPPED, read};

fn small(text: &str) -> Scenario {
    let mut scenario = read(text).unwrap();
    scenario.clients = 40;
    scenario
}

fn results(scenario: &Scenario, seeds: &[u64], threads: usize) -> Results {
    let plan = run::Plan {
        scenario,
        strategies: &Strategy::ALL,
        policy: &Policy::default(),
        seeds,
        threads,
    };
    run::run(&plan, &|_| ()).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_however_many_threads_and_another_seed_does_not() {
    for text in [SHIPPED[3], SHIPPED[6], SHIPPED[7], SHIPPED[9]] {
        let scenario = small(text);
        let bytes = |seeds: &[u64], threads| {
            serde_json::to_string(&results(&scenario, seeds, threads)).unwrap()
        };
        let once = bytes(&[7, 8], 1);
        // Not `assert_eq`: a megabyte says nothing to a reader.
        assert!(once == bytes(&[7, 8], 3), "{}", scenario.name);
        assert!(once != bytes(&[8, 7], 1), "{}", scenario.name);
        let back: Results = serde_json::from_str(&once).unwrap();
        assert_eq!(back.strategies.len(), Strategy::ALL.len());
    }
}

#[test]
fn what_began_has_ended_or_is_under_way_in_every_scenario_under_every_strategy() {
    for text in SHIPPED {
        let scenario = small(text);
        for result in results(&scenario, &[3], 1).strategies {
            let it = result.counters;
            let what = format!("{} {}: {it:?}", scenario.name, result.strategy.name());
            let operations = it.operations_succeeded + it.operations_failed + it.operations_pending;
            assert_eq!(it.operations, operations, "{what}");
            let ended = it.calls_succeeded + it.calls_failed + it.calls_timed_out;
            let ended = ended + it.calls_throttled;
            assert_eq!(it.calls, ended + it.calls_in_flight, "{what}");
            assert!(it.calls_in_flight <= it.operations_pending, "{what}");
            assert!(it.calls_succeeded >= it.operations_succeeded, "{what}");
            assert!(it.operations > 0.0 && it.calls > 0.0, "{what}");
        }
    }
}

#[test]
fn series_have_one_number_a_bucket_and_add_up_to_the_counters() {
    let scenario = small(SHIPPED[0]);
    for result in results(&scenario, &[1], 1).strategies {
        let (series, it) = (result.series, result.counters);
        let buckets = (scenario.duration.secs() / series.bucket_s).ceil() as usize;
        for numbers in [
            &series.calls_per_second,
            &series.goodput_per_second,
            &series.wasted_per_second,
            &series.in_flight,
            &series.late,
            &series.open_share,
        ] {
            assert_eq!(numbers.len(), buckets);
        }
        let sum = |numbers: &[f64]| numbers.iter().sum::<f64>() * series.bucket_s;
        assert!((sum(&series.goodput_per_second) - it.operations_succeeded).abs() < 0.5);
        assert!((sum(&series.wasted_per_second) - it.calls_wasted).abs() < 0.5);
        let has_state = !series.state.is_empty();
        assert_eq!(has_state, result.strategy == Strategy::Holdoff);
    }
}
