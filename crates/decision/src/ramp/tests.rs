use super::*;
use crate::Share;

const NOW: Time = Time(7_000_000_000);

fn usual(per_second: f64) -> Option<Usual> {
    Some(Usual {
        per_second,
        latency: Some(Nanos::from_millis(10)),
        failing: 0.001,
    })
}

fn begin(per_second: f64) -> Ramp {
    Ramp::begin(&policy::Ramp::default(), usual(per_second), NOW).unwrap()
}

fn at(millis: u64) -> Time {
    NOW + Nanos::from_millis(millis)
}

/// The rate after each of so many steps in which somebody waited.
fn rates(ramp: &mut Ramp, steps: u64) -> Vec<u64> {
    let policy = policy::Ramp::default();
    let first = ramp.step_began;
    (1..=steps)
        .map(|step| {
            ramp.step.somebody_waited = true;
            ramp.advance(&policy, first + Nanos::from_millis(250 * step));
            ramp.rate.round() as u64
        })
        .collect()
}

#[test]
fn the_curve_doubles_up_to_what_was_and_then_climbs_by_tenths() {
    let policy = policy::Ramp {
        start: Share(100_000),
        ..policy::Ramp::default()
    };
    let mut ramp = Ramp::begin(&policy, usual(1000.0), NOW).unwrap();
    assert_eq!(ramp.rate.round() as u64, 100);
    assert_eq!(rates(&mut ramp, 6), [200, 400, 800, 1000, 1100, 1200]);
}

#[test]
fn failures_and_slowness_push_the_curve_back() {
    let mut ramp = begin(1000.0);
    rates(&mut ramp, 1);
    ramp.note(98, 2);
    assert_eq!(rates(&mut ramp, 1), [700]);
    assert_eq!(rates(&mut ramp, 3), [800, 900, 1000]);
    ramp.note(199, 2);
    assert_eq!(rates(&mut ramp, 1), [1100], "1 % is allowed");
    ramp.note(240, 0);
    for _ in 0..5 {
        ramp.note_latency(Nanos::from_millis(41));
    }
    assert_eq!(rates(&mut ramp, 2), [931, 931], "97 % of what it served");
    ramp.note_latency(Nanos::from_secs(9));
    assert_eq!(rates(&mut ramp, 1), [960], "one latency says nothing");
    ramp.note(30, 0);
    for _ in 0..20 {
        ramp.note_latency(Nanos::from_millis(41));
    }
    let (policy, began) = (policy::Ramp::default(), ramp.step_began);
    ramp.advance(&policy, began + Nanos::from_millis(49));
    assert_eq!(ramp.rate.round() as u64, 960, "so soon they say little");
    ramp.advance(&policy, began + Nanos::from_millis(60));
    assert_eq!(ramp.rate.round() as u64, 485, "twenty end the step early");
}

#[test]
fn a_queue_that_drains_is_no_reason_to_step_back_again() {
    let mut ramp = begin(1000.0);
    rates(&mut ramp, 1);
    let mut after = |millis: u64| {
        ramp.note(240, 0);
        for _ in 0..5 {
            ramp.note_latency(Nanos::from_millis(millis));
        }
        rates(&mut ramp, 1)[0]
    };
    assert_eq!(after(60), 900);
    assert_eq!(after(90), 900, "it was admitted before");
    assert_eq!([after(80), after(70), after(50)], [900; 3]);
    assert_eq!(after(50), 810, "it does not drain");
    assert_eq!([after(70), after(20)], [810; 2]);
    assert_eq!(after(20), 910, "it has drained");
}

#[test]
fn the_curve_never_falls_to_nothing() {
    let mut ramp = begin(1000.0);
    for _ in 0..50 {
        ramp.note(0, 10);
        rates(&mut ramp, 1);
    }
    assert_eq!(ramp.rate.round() as u64, 16);
    assert_eq!(rates(&mut ramp, 3), [31, 63, 125]);
}

#[test]
fn nothing_known_or_a_whole_start_means_no_ramp() {
    let policy = policy::Ramp::default();
    assert_eq!(Ramp::begin(&policy, None, NOW), None);
    assert_eq!(Ramp::begin(&policy, usual(0.0), NOW), None);
    let off = policy::Ramp {
        start: Share::ONE,
        ..policy
    };
    assert_eq!(Ramp::begin(&off, usual(100.0), NOW), None);
}

#[test]
fn places_follow_each_other_at_the_rate_and_end_at_the_horizon() {
    let policy = policy::Ramp::default();
    let mut ramp = begin(200.0);
    let mut waits = Vec::new();
    while let Ok(wait) = ramp.room(&policy, 0, 0.0, NOW) {
        ramp.take(&policy, NOW);
        waits.push(wait.0 / 1_000_000);
    }
    assert_eq!(waits[..3], [0, 10, 20]);
    assert_eq!(
        waits[24..28],
        [240, 250, 255, 260],
        "in the next step the curve has twice as many"
    );
    assert_eq!((waits.len(), waits[35]), (36, 300));
    assert!(ramp.room(&policy, 0, 0.0, at(10)).is_ok());
}

#[test]
fn those_that_find_no_place_are_told_times_along_the_curve() {
    let policy = policy::Ramp::default();
    let mut ramp = begin(200.0);
    ramp.next = at(300);
    let told: Vec<u64> = (0..1000)
        .map(|call| ramp.line_up(&policy, call, 0.0, NOW).0 / 1_000_000)
        .collect();
    assert!(told.iter().all(|wait| *wait >= 150), "{told:?}");
    let in_second = |second: u64| {
        let within = |at: &&u64| **at / 1000 == second;
        told.iter().filter(within).count()
    };
    let per_second: Vec<usize> = (0..4).map(in_second).collect();
    assert_eq!(per_second.iter().sum::<usize>(), 1000, "{per_second:?}");
    assert!(per_second[1] > per_second[0]);
    assert_eq!(ramp.curve(NOW).waiting, 1000);
    assert_eq!(ramp.curve(at(4000)).waiting, 0);
}

#[test]
fn while_many_come_back_who_was_told_to_goes_before_who_asks_anew() {
    let policy = policy::Ramp::default();
    let mut ramp = begin(200.0);
    ramp.next = at(300);
    let told: Vec<Time> = (0..500)
        .map(|call| NOW + ramp.line_up(&policy, call, 0.0, NOW))
        .collect();
    // Two seconds later, the curve being 100 ms ahead of what it has admitted.
    let (now, rate) = (at(2_050), ramp.rate);
    ramp.next = now + Nanos::from_millis(100);
    (ramp.step_began, ramp.rate) = (now, rate);
    let finds = |call: u64, now: Time| ramp.room(&policy, call, 0.0, now).is_ok();
    let came_back = |call: &u64| {
        let told = told[*call as usize];
        now <= told + Nanos::from_millis(5) && told <= now
    };
    let back: Vec<u64> = (0..500).filter(came_back).collect();
    assert!(!back.is_empty());
    assert!(back.into_iter().all(|call| finds(call, now)));
    let new = (500..2_500).filter(|call| finds(*call, now)).count();
    assert!(
        (150..250).contains(&new),
        "{new} of 2,000: a tenth ask at their moment"
    );
    assert!(finds(7, at(60_000)), "when nobody was told to come");
}

#[test]
fn a_quiet_ramp_is_over_soon_and_a_busy_one_at_its_longest() {
    let policy = policy::Ramp::default();
    let mut ramp = begin(200.0);
    assert!(
        ramp.lasts(at(1249)) && !ramp.lasts(at(1250)),
        "as it will be"
    );
    assert_eq!(ramp.advance(&policy, at(1249)), Progress::Climbs);
    assert_eq!(ramp.advance(&policy, at(1250)), Progress::Done);
    let mut ramp = begin(200.0);
    for step in 1..240 {
        ramp.step.somebody_waited = true;
        assert_eq!(ramp.advance(&policy, at(250 * step)), Progress::Climbs);
    }
    assert_eq!(ramp.advance(&policy, at(60_000)), Progress::Done);
    assert!(!ramp.lasts(at(60_000)));
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let policy = policy::Ramp::default();
    let mut ramp = begin(200.0);
    ramp.advance(&policy, at(600));
    let before = ramp.clone();
    assert_eq!(ramp.advance(&policy, Time(3)), Progress::Climbs);
    assert_eq!(ramp, before);
}

#[test]
fn no_number_makes_it_panic() {
    for span in [0, 1, u64::MAX] {
        for per_second in [f64::MIN_POSITIVE, f64::INFINITY, 1e300, 3.0] {
            let policy = policy::Ramp {
                start: Share(1),
                step: Nanos(span),
                max_duration: Nanos(u64::MAX - span),
                horizon: Nanos(span),
            };
            let Some(mut ramp) = Ramp::begin(&policy, usual(per_second), NOW) else {
                continue;
            };
            for now in [NOW, Time(0), at(1), Time::MAX] {
                let _ = ramp.advance(&policy, now);
                ramp.note(u32::MAX, u32::MAX);
                ramp.note_latency(Nanos::MAX);
                let _ = ramp.room(&policy, u64::MAX, f64::NAN, now);
                ramp.take(&policy, now);
                let _ = ramp.line_up(&policy, u64::MAX, f64::NAN, now);
                let _ = ramp.curve(now);
            }
        }
    }
}
