use std::collections::BTreeSet;

use super::*;

#[test]
fn b37b_every_series_is_there_from_the_first_scrape() {
    let text = Telemetry::default().exposition();
    for line in [
        "holdoff_decisions_total{verdict=\"denied\",reason=\"breaker_open\"} 0",
        "holdoff_transitions_total{from=\"closed\",to=\"open\"} 0",
        "rpc_server_call_duration_seconds_count{rpc_method=\"holdoff.v1.CoordinatorService/Acquire\"} 0",
        "holdoff_rpc_calls_total{rpc_method=\"_OTHER\",rpc_response_status_code=\"INTERNAL\"} 0",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
}

#[test]
fn every_counter_has_a_place_of_its_own_and_is_shown_once() {
    let telemetry = Telemetry::default();
    let before = counters::families(&telemetry);
    for place in 0..counters::COUNT {
        telemetry.add_at(place, 1 << 20);
    }
    let shown = |families: &[Family]| -> Vec<u64> {
        let series = families.iter().flat_map(|family| &family.series);
        series
            .map(|(_, value)| match value {
                Value::Whole(value) => *value,
                Value::Number(_) | Value::Times(_) => panic!("{value:?}"),
            })
            .collect()
    };
    assert!(shown(&before).iter().all(|value| *value == 0));
    let after = counters::families(&telemetry);
    assert!(shown(&after).iter().all(|value| *value == 1 << 20));
    // What was closed is shown as what is open.
    assert_eq!(shown(&after).len(), counters::COUNT - 2);
    let ids: BTreeSet<_> = after
        .iter()
        .flat_map(|family| {
            let named = |(labels, _): &(_, _)| (family.metric.name, format!("{labels:?}"));
            family.series.iter().map(named).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(ids.len(), counters::COUNT - 2);
}

#[test]
fn what_is_no_rpc_of_ours_is_one_series() {
    let acquire = Method::of("/holdoff.v1.CoordinatorService/Acquire");
    assert_eq!(acquire.name(), "holdoff.v1.CoordinatorService/Acquire");
    for hostile in [
        "/",
        "",
        "/a/b",
        "/holdoff.v1.CoordinatorService/Acquire/",
        "/\"} 1\n",
    ] {
        assert_eq!(Method::of(hostile).name(), OTHER, "{hostile:?}");
    }
    let telemetry = Telemetry::default();
    let lines = telemetry.exposition().lines().count();
    telemetry.rpc(Method::of("/a/b"), 12, Duration::from_millis(3));
    telemetry.rpc(acquire, 99, Duration::ZERO);
    let text = telemetry.exposition();
    assert_eq!(text.lines().count(), lines);
    for line in [
        "holdoff_rpc_calls_total{rpc_method=\"_OTHER\",rpc_response_status_code=\"UNIMPLEMENTED\"} 1",
        "rpc_server_call_duration_seconds_sum{rpc_method=\"_OTHER\"} 0.003",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
}

#[test]
fn the_most_usual_rpc_is_found_first() {
    assert_eq!(METHODS[0].name, "holdoff.v1.CoordinatorService/Acquire");
    assert_eq!(METHODS.last().unwrap().name, OTHER);
}

#[test]
fn a_code_has_the_name_that_grpc_gives_it() {
    for (number, name) in CODE_NAMES.iter().enumerate() {
        let code = tonic::Code::from(i32::try_from(number).unwrap());
        let camel = format!("{code:?}").to_uppercase();
        let expected = name.replace('_', "");
        assert_eq!(camel, expected, "{number}");
    }
}
