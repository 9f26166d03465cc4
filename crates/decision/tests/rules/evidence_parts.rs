//! Whom the evidence comes from, by itself: parts, quorum, faults, memory.

use holdoff_decision::{
    Nanos, Policy, Share, Time,
    detector::{Detector, THRESHOLD},
    evidence::{Heard, Judged, RECENT, REPORTERS_MAX, Reporters, Sketch, Sum},
    policy::Breaker,
    window::Counts,
};

struct World {
    policy: Breaker,
    reporters: Reporters,
    recent: Sketch<2>,
    now: Time,
}

impl World {
    fn new() -> Self {
        Self {
            policy: Policy::default().breaker,
            reporters: Reporters::new(0.0, Time(1)),
            recent: Sketch::default(),
            now: Time(1),
        }
    }

    fn pass(&mut self, millis: u64) -> &mut Self {
        self.now = self.now + Nanos::from_millis(millis);
        self
    }

    fn hears(&mut self, reporter: Option<u64>, good: u32, bad: u32) -> Judged<Sum> {
        if let Some(name) = reporter {
            self.recent.note(name, RECENT, self.now);
            self.reporters.note(name, self.now);
        }
        let counts = Counts {
            calls: good + bad,
            failures: bad,
            slow: 0,
        };
        let at = self.now;
        let heard = Heard {
            reporter,
            counts,
            at,
        };
        let weights = Detector::default().weights();
        self.reporters
            .weigh(&self.policy, weights, &heard, &self.recent)
    }

    fn sum(&mut self, reporter: u64, good: u32, bad: u32) -> Sum {
        match self.hears(Some(reporter), good, bad) {
            Judged::Fleet(sum) => sum,
            Judged::Alone => panic!("one instance is active"),
        }
    }

    fn refused(&self, name: u64) -> Option<Nanos> {
        self.reporters.refused(name, self.now)
    }
}

#[test]
fn one_instance_alone_is_judged_by_its_detector() {
    let mut world = World::new();
    for _ in 0..20 {
        assert_eq!(world.hears(Some(7), 0, 1), Judged::Alone);
    }
    assert_eq!(world.refused(7), None);
}

#[test]
fn no_instance_adds_more_than_its_share_of_what_a_trip_needs() {
    let mut world = World::new();
    world.hears(Some(1), 1, 0);
    for _ in 0..1000 {
        let sum = world.sum(2, 0, 1);
        assert!(sum.sum <= THRESHOLD * 0.5 && !sum.trips, "{sum:?}");
    }
    world.policy.max_reporter_share = Share(800_000);
    assert!((world.sum(2, 0, 1).sum - THRESHOLD * 0.8).abs() < 0.01);
}

#[test]
fn two_of_two_that_fail_trip_at_any_share_and_any_pace() {
    for share in [1, 300_000, 333_333, 500_000, 900_000] {
        for pace_ms in [0, 100, 1_000] {
            let mut world = World::new();
            world.policy.max_reporter_share = Share(share);
            let trips = (0..12).position(|call| {
                let judged = world.pass(pace_ms).hears(Some(call % 2), 0, 1);
                matches!(judged, Judged::Fleet(Sum { trips: true, .. }))
            });
            let calls = trips.map(|call| call + 1);
            assert!(
                calls.is_some_and(|calls| calls <= 6),
                "{share} {pace_ms}: {calls:?}"
            );
        }
    }
}

#[test]
fn without_an_instance_at_its_most_the_sum_is_the_plain_one() {
    let mut world = World::new();
    let mut plain = Detector::default();
    world.hears(Some(50), 1, 0);
    for call in 0..250_u64 {
        let failed = u32::from(call % 7 == 0);
        let tripped = plain.record(1 - failed, failed, world.now);
        let sum = world.sum(call % 100, 1 - failed, failed);
        let expected = plain.suspicion(world.now) * THRESHOLD;
        assert!(
            (sum.sum - expected).abs() < 0.01,
            "{call}: {sum:?} {expected}"
        );
        assert_eq!(sum.trips, tripped);
        world.pass(10);
    }
}

#[test]
fn a_trip_needs_a_quorum_of_instances_and_never_more_than_are_active() {
    let mut world = World::new();
    world.policy.min_reporters = 5;
    world.policy.max_reporter_share = Share::ONE;
    (0..10).for_each(|name| {
        world.hears(Some(name), 1, 0);
    });
    for name in 0..4 {
        for _ in 0..20 {
            assert!(!world.sum(name, 0, 1).trips);
        }
    }
    assert!(world.sum(4, 0, 1).trips);
    let mut small = World::new();
    small.policy.min_reporters = 5;
    small.hears(Some(1), 0, 4);
    small.hears(Some(2), 0, 4);
    assert!(small.sum(3, 0, 4).trips, "all three that are active fail");
}

#[test]
fn a_bad_instance_is_refused_tries_once_a_lease_and_is_let_back_by_a_success() {
    let mut world = World::new();
    for _ in 0..5 {
        (10..14).for_each(|name| {
            world.hears(Some(name), 1, 0);
        });
        assert_eq!(world.refused(1), None);
        assert!(!world.sum(1, 0, 1).trips);
    }
    assert_eq!(world.refused(1), Some(world.policy.open_for));
    assert_eq!((world.refused(10), world.reporters.faults()), (None, 1));
    world.pass(9_999).hears(Some(1), 1, 0);
    assert!(world.refused(1).is_some(), "a call of before is no try");
    assert_eq!(world.pass(1).refused(1), None);
    let lease = world.policy.probe_lease;
    world.reporters.try_once(1, world.now + lease);
    assert_eq!(world.refused(1), Some(lease));
    assert_eq!(world.reporters.refused_still(1, world.now), None);
    world.pass(10).hears(Some(1), 0, 1);
    assert!(world.refused(1).is_some());
    assert_eq!(world.pass(4_990).refused(1), None);
    world.hears(Some(1), 1, 0);
    assert_eq!(world.reporters.faults(), 0);
}

#[test]
fn an_instance_that_fails_once_beside_a_bad_one_is_not_refused() {
    let mut world = World::new();
    world.hears(Some(9), 1, 0);
    for _ in 0..4 {
        world.sum(1, 0, 1);
    }
    assert!(!world.sum(2, 0, 1).trips);
    assert_eq!(world.refused(2), None);
}

#[test]
fn silence_is_one_unknown_instance_and_no_second_witness() {
    let mut world = World::new();
    world.hears(Some(9), 1, 0);
    world.hears(Some(8), 1, 0);
    for _ in 0..100 {
        let judged = world.hears(None, 0, 2);
        let named = world.sum(1, 0, 1);
        assert!(!named.trips, "{judged:?} {named:?}");
    }
    assert!(world.sum(2, 0, 1).trips);
}

#[test]
fn churn_neither_grows_the_table_nor_holds_a_trip_back() {
    let mut world = World::new();
    let tripped = (0..5).any(|name| {
        let judged = world.hears(Some(name), 0, 1);
        matches!(judged, Judged::Fleet(Sum { trips: true, .. }))
    });
    assert!(tripped);
    let mut world = World::new();
    world.policy.min_reporters = 64;
    for name in 0..100_000 {
        world.hears(Some(name), 0, 1);
        assert!(world.reporters.tracks() <= REPORTERS_MAX);
    }
    assert!(world.sum(1, 0, 1).trips);
}

#[test]
fn a_fleet_that_has_shrunk_to_one_is_alone_within_a_minute() {
    let mut world = World::new();
    (0..10).for_each(|name| {
        world.hears(Some(name), 1, 0);
    });
    world.sum(1, 0, 1);
    assert!(world.pass(60_000).hears(Some(1), 0, 1) == Judged::Alone);
}

#[test]
fn nothing_is_kept_when_all_has_been_quiet_for_a_minute() {
    let mut world = World::new();
    world.hears(Some(1), 0, 1);
    world.pass(59_999);
    assert!(!world.reporters.is_quiet(world.now));
    world.pass(1);
    assert!(world.reporters.is_quiet(world.now));
}
