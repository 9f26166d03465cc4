//! Fleets of checkers on virtual time: gaps, grids, observers, room.

use std::collections::BTreeMap;

use holdoff_decision::{
    Nanos, Sample, Time,
    check::{CHECKERS_MAX, Checks, Finished, Plan, Verdict, checker_name, plan},
    policy::{Check, Phase},
};

/// A fixed sequence of draws (splitmix64).
pub struct Draws(pub u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Checkers that do as they are told.
struct Fleet {
    policy: Check,
    checks: Checks,
    draws: Draws,
    now: Time,
    /// When each asks next, and the result that it brings.
    asks: BTreeMap<(Time, u64), Option<Finished>>,
    /// Starts and ends, by checker.
    runs: Vec<(Time, Time, u64)>,
    healthy: bool,
    /// How long a check takes at most; none is longer than this part of the timeout.
    longest: f64,
}

const START: Time = Time(1_700_000_000_123_456_789);

impl Fleet {
    fn new(policy: Check, seed: u64) -> Self {
        Self {
            policy,
            checks: Checks::default(),
            draws: Draws(seed),
            now: START,
            asks: BTreeMap::new(),
            runs: Vec::new(),
            healthy: true,
            longest: 0.5,
        }
    }

    fn join(&mut self, replica: u64) -> u64 {
        let name = checker_name("payments", "web", &replica.to_string());
        self.asks.insert((self.now, name), None);
        name
    }

    fn leave(&mut self, name: u64) {
        self.asks.retain(|(_, other), _| *other != name);
        self.checks.leave(name, self.now);
    }

    fn ask(&mut self, name: u64, last: Option<Finished>) -> Plan {
        let sample = Sample {
            jitter: self.draws.unit(),
            spread: self.draws.unit(),
        };
        plan(&self.policy, &mut self.checks, name, last, self.now, sample)
    }

    /// Lets everything happen until `end`.
    fn run_to(&mut self, end: Time) {
        while let Some(((at, name), _)) = self.asks.first_key_value().map(|(k, v)| (*k, *v)) {
            if at > end {
                break;
            }
            self.now = at;
            let last = self.asks.remove(&(at, name)).unwrap();
            let next = match self.ask(name, last) {
                Plan::Shared { ask_again, .. } => (self.now + ask_again, None),
                Plan::Run {
                    delay,
                    timeout,
                    serial,
                } => {
                    let start = self.now + delay;
                    let took = timeout.scaled(self.draws.unit() * self.longest);
                    let healthy = self.healthy;
                    self.runs.push((start, start + took, name));
                    (start + took, Some(Finished { serial, healthy }))
                }
            };
            assert!(next.0 > at || next.1.is_some(), "asked again at once");
            self.asks.insert((next.0, name), next.1);
        }
        self.now = end;
    }

    fn run_for(&mut self, periods: f64) {
        let span = Nanos((self.policy.period.0 as f64 * periods) as u64);
        self.run_to(self.now + span);
    }

    fn now_minus(&self, periods: f64) -> Time {
        Time(self.now.0 - (self.policy.period.0 as f64 * periods) as u64)
    }

    /// No two runs of one checker are closer than half a period, or further apart than two.
    fn assert_none_is_doubled_or_skipped(&self) {
        let mut last = BTreeMap::new();
        for (start, _, name) in &self.runs {
            if let Some(before) = last.insert(*name, *start) {
                let spacing = before.until(*start).0 as f64 / self.policy.period.0 as f64;
                assert!((0.48..=1.1).contains(&spacing), "{spacing} periods");
            }
        }
    }

    /// The largest gap between starts from `from` to `to`, in even ones of `count`.
    fn unevenness(&self, from: Time, to: Time, count: u64) -> f64 {
        let mut starts: Vec<u64> = self.runs.iter().map(|run| run.0.0).collect();
        starts.sort_unstable();
        starts.retain(|start| (from.0..=to.0).contains(start));
        let gap = starts.windows(2).map(|two| two[1] - two[0]).max().unwrap();
        gap as f64 * count as f64 / self.policy.period.0 as f64
    }
}

fn secs(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

fn policy(phase: Phase) -> Check {
    Check {
        period: secs(30.0),
        offset: secs(3.0),
        phase,
        first_within: secs(30.0),
        timeout: secs(2.0),
        max_concurrent: 4_096,
        ..Check::default()
    }
}

#[test]
fn checks_started_together_are_within_1_45_at_first_and_1_1_from_their_first_full_period_on() {
    for count in [3, 10, 100, 1_000, 4_000] {
        for seed in 0..3 {
            let mut fleet = Fleet::new(policy(Phase::Spread), seed);
            (0..count).for_each(|replica| {
                fleet.join(replica + seed * 10_000);
            });
            fleet.run_for(6.0);
            let period = fleet.policy.period;
            let from_first = fleet.unevenness(START, fleet.now, count);
            let from_full = fleet.unevenness(START + period, fleet.now, count);
            println!("{count} together: {from_first:.3}, after {period} {from_full:.3}");
            assert!(from_first <= 1.45, "{from_first}");
            assert!(from_full <= 1.1, "{from_full}");
            fleet.assert_none_is_doubled_or_skipped();
        }
    }
}

#[test]
fn checks_whose_first_run_is_soon_are_within_1_1_from_then_on() {
    let mut fleet = Fleet::new(policy(Phase::Spread), 13);
    fleet.policy.period = secs(1_800.0);
    fleet.policy.first_within = secs(60.0);
    (0..1_000).for_each(|replica| {
        fleet.join(replica);
    });
    fleet.run_for(4.0);
    let firsts = fleet.runs[..1_000].iter();
    assert!(firsts.clone().all(|run| run.0 <= START + secs(60.0)));
    let from_full = fleet.unevenness(START + secs(62.0), fleet.now, 1_000);
    println!("1,000 within a minute of 30: then {from_full:.3}");
    assert!(from_full <= 1.1, "{from_full}");
}

#[test]
fn checks_started_within_first_within_are_within_1_1_when_each_has_run() {
    for seed in 0..5 {
        let mut fleet = Fleet::new(policy(Phase::Spread), seed);
        let mut joins: Vec<u64> = (0..1_000).map(|_| fleet.draws.below(30_000)).collect();
        joins.sort_unstable();
        for (replica, at) in (0..).zip(joins) {
            fleet.run_to(START + Nanos::from_millis(at));
            fleet.join(replica);
        }
        fleet.run_to(START + secs(300.0));
        let from_full = fleet.unevenness(START + secs(60.0), fleet.now, 1_000);
        println!("1,000 within a period, seed {seed}: {from_full:.3} when each has run");
        assert!(from_full <= 1.1, "{from_full}");
    }
}

#[test]
fn checkers_that_join_one_by_one_leave_no_gap_above_1_45() {
    for periods in [0.0, 0.001, 0.01, 0.1, 0.34, 0.5, 0.9, 1.1, 3.0] {
        let mut fleet = Fleet::new(policy(Phase::Spread), 2);
        let mut worst = 0.0_f64;
        for replica in 0..(if periods > 0.2 { 100 } else { 1_000 }) {
            let name = fleet.join(replica);
            fleet.run_to(fleet.now);
            assert!(fleet.checks.checkers() as u64 > replica, "{name}");
            worst = worst.max(fleet.checks.unevenness());
            fleet.run_for(periods);
        }
        println!("one joins each {periods} periods: {worst:.3}");
        assert!(worst <= 1.45, "{worst}");
        fleet.assert_none_is_doubled_or_skipped();
    }
}

#[test]
fn churn_leaves_no_gap_above_2() {
    for seed in 0..20 {
        let mut fleet = Fleet::new(policy(Phase::Spread), seed);
        let mut names: Vec<u64> = (0..200).map(|replica| fleet.join(replica)).collect();
        fleet.run_for(3.0);
        let (mut worst, settled) = (0.0_f64, fleet.now);
        for replica in 200..3_200 {
            let at = (fleet.draws.next() % names.len() as u64) as usize;
            let gone = names.swap_remove(at);
            fleet.leave(gone);
            worst = worst.max(fleet.checks.unevenness());
            names.push(fleet.join(replica));
            fleet.run_for(0.005);
            worst = worst.max(fleet.checks.unevenness());
        }
        let started = fleet.unevenness(settled, fleet.now, 200);
        println!("churn, seed {seed}: {worst:.3}, of starts {started:.3}");
        assert!(
            worst <= 2.0 && started <= 2.0,
            "seed {seed}: {worst} {started}"
        );
    }
}

#[test]
fn growth_of_an_even_fleet_leaves_no_gap_above_2() {
    for periods in [0.0, 0.001, 0.01, 0.1, 1.0] {
        let mut fleet = Fleet::new(policy(Phase::Spread), 16);
        (0..30).for_each(|replica| {
            fleet.join(replica);
        });
        fleet.run_for(4.0);
        let mut worst = 0.0_f64;
        for replica in 30..200 {
            fleet.join(replica);
            fleet.run_to(fleet.now);
            worst = worst.max(fleet.checks.unevenness());
            fleet.run_for(periods);
        }
        println!("30 grow to 200, one each {periods} periods: {worst:.3}");
        assert!(worst <= 2.0, "{worst}");
        fleet.run_for(4.0);
        let settled = fleet.unevenness(fleet.now_minus(1.5), fleet.now, 200);
        assert!(settled <= 1.1, "{settled}");
        fleet.assert_none_is_doubled_or_skipped();
    }
}

#[test]
fn half_of_the_fleet_may_leave_at_once_and_the_rest_spreads_again() {
    let mut fleet = Fleet::new(policy(Phase::Spread), 3);
    (0..200).for_each(|replica| {
        fleet.join(replica);
    });
    fleet.run_for(5.0);
    // Those whose turn is next: half of the period has nobody left.
    let next: Vec<u64> = fleet.asks.keys().map(|(_, name)| *name).take(100).collect();
    next.into_iter().for_each(|name| fleet.leave(name));
    let left = fleet.now;
    assert!(fleet.checks.unevenness() > 45.0);
    fleet.run_for(4.0);
    assert!(fleet.checks.unevenness() <= 1.01);
    let settled = fleet.unevenness(left + secs(70.0), fleet.now, 100);
    assert!(settled <= 1.1, "{settled}");
    fleet.assert_none_is_doubled_or_skipped();
}

#[test]
fn any_half_that_leaves_is_made_up_for_within_two_periods_and_comes_back_into_its_places() {
    for (seed, count) in [(1, 10_u64), (2, 100), (3, 1_000)] {
        let mut fleet = Fleet::new(policy(Phase::Spread), seed);
        let mut names: Vec<u64> = (0..count).map(|replica| fleet.join(replica)).collect();
        fleet.run_for(4.0);
        for _ in 0..count / 2 {
            let at = fleet.draws.below(names.len() as u64) as usize;
            let gone = names.swap_remove(at);
            fleet.leave(gone);
        }
        let left = fleet.now;
        let holes = fleet.checks.unevenness();
        fleet.run_for(3.0);
        fleet.run_for(1.0);
        let soon = fleet.unevenness(left + secs(32.0), fleet.now, count / 2);
        let rest = fleet.unevenness(left + secs(62.0), fleet.now, count / 2);
        // Back again, at once.
        let mut worst = 0.0_f64;
        for replica in 0..count / 2 {
            names.push(fleet.join(count + replica));
        }
        fleet.run_to(fleet.now);
        let back = fleet.now;
        worst = worst.max(fleet.checks.unevenness());
        fleet.run_for(4.0);
        let between = fleet.unevenness(back, fleet.now, count);
        let settled = fleet.unevenness(back + secs(32.0), fleet.now, count);
        println!(
            "half of {count} leave: {holes:.2}, after a period {soon:.3}, two {rest:.3}; back: {worst:.3}, starts \
             {between:.3}, after a period {settled:.3}"
        );
        assert!(soon <= 2.0 && rest <= 1.1, "{soon} {rest}");
        assert!(worst <= 1.5 && settled <= 1.1, "{worst} {settled}");
        assert!(between <= 2.2, "{between}");
        fleet.assert_none_is_doubled_or_skipped();
    }
}

#[test]
fn a_coordinator_that_starts_again_has_them_within_2_after_a_period_and_1_1_after_three() {
    for count in [10, 100, 1_000] {
        let mut fleet = Fleet::new(policy(Phase::Spread), 14);
        (0..count).for_each(|replica| {
            fleet.join(replica);
        });
        fleet.run_for(4.5);
        fleet.checks = Checks::default();
        for last in fleet.asks.values_mut() {
            *last = None;
        }
        let again = fleet.now;
        fleet.run_for(8.0);
        let after = |periods: f64| fleet.unevenness(again + secs(30.0 * periods), fleet.now, count);
        let (soon, settled) = (after(1.0), after(3.0));
        println!("{count} after a restart: {soon:.3} from the second period, then {settled:.3}");
        assert!(soon <= 2.0 && settled <= 1.1, "{soon} {settled}");
    }
}

#[test]
fn a_checker_that_starts_again_keeps_its_place_while_it_is_remembered() {
    for phase in [Phase::Hash, Phase::Spread] {
        let mut fleet = Fleet::new(policy(phase), 15);
        let names: Vec<u64> = (0..100).map(|replica| fleet.join(replica)).collect();
        fleet.run_for(5.0);
        let place = |fleet: &Fleet, name: u64| {
            let last = fleet.runs.iter().rev().find(|run| run.2 == name);
            last.unwrap().0.0 % fleet.policy.period.0
        };
        let before: Vec<u64> = names.iter().map(|name| place(&fleet, *name)).collect();
        // All processes start again at once, and know of no plan and no result.
        let now = fleet.now;
        fleet.asks = names.iter().map(|name| ((now, *name), None)).collect();
        fleet.run_for(3.0);
        for (name, before) in names.iter().zip(before) {
            let moved = place(&fleet, *name).abs_diff(before);
            let moved = moved.min(fleet.policy.period.0 - moved);
            assert!(moved <= fleet.policy.offset.0, "{phase:?}: {moved} ns");
        }
    }
}

#[test]
fn after_ten_thousand_runs_each_is_within_its_offset_of_its_grid() {
    for phase in [Phase::Hash, Phase::Spread] {
        let mut fleet = Fleet::new(policy(phase), 4);
        let names: Vec<u64> = (0..10).map(|replica| fleet.join(replica)).collect();
        fleet.run_for(10.0);
        let (from, period) = (fleet.runs.len(), fleet.policy.period.0);
        fleet.run_for(10_000.0);
        for name in names {
            let of_one = fleet.runs[from..].iter().filter(|run| run.2 == name);
            let starts: Vec<u64> = of_one.map(|run| run.0.0).collect();
            assert!(starts.len() >= 9_999, "{} runs", starts.len());
            let phases = || starts.iter().map(|start| start % period);
            // Relative to the first, so that no phase is cut by the end of a period.
            let around = |phase: u64| (phase + period + period / 2 - starts[0] % period) % period;
            let (low, high) = (phases().map(around).min(), phases().map(around).max());
            let width = high.unwrap() - low.unwrap();
            assert!(width <= fleet.policy.offset.0, "{phase:?}: {width} ns");
            let spaced = starts.windows(2).map(|two| two[1] - two[0]);
            assert!(
                spaced
                    .clone()
                    .all(|gap| gap > period / 2 && gap < period * 3 / 2)
            );
        }
    }
}

#[test]
fn three_observers_of_five_hundred_make_three_checks_a_period() {
    for phase in [Phase::Hash, Phase::Spread] {
        let mut fleet = Fleet::new(policy(phase), 5);
        fleet.policy.observers = 3;
        (0..500).for_each(|replica| {
            fleet.join(replica);
        });
        fleet.run_for(300.0);
        let period = fleet.policy.period.0;
        let mut of_turn = BTreeMap::<u64, u32>::new();
        for (start, ..) in &fleet.runs {
            *of_turn.entry(start.0 / period).or_default() += 1;
        }
        let inner: Vec<u32> = of_turn.values().copied().skip(4).collect();
        let inner = &inner[..inner.len() - 2];
        let wrong: Vec<&u32> = inner.iter().filter(|count| **count != 3).collect();
        // A check near the end of a period may begin after it, by its jitter.
        let total: u32 = inner.iter().sum();
        assert!(
            inner.iter().all(|count| (2..=4).contains(count)),
            "{wrong:?}"
        );
        assert!(
            total.abs_diff(3 * inner.len() as u32) <= 1,
            "{total} of {}",
            inner.len()
        );
        let mut checked: Vec<u64> = fleet.runs.iter().map(|run| run.2).collect();
        checked.sort_unstable();
        checked.dedup();
        assert!(
            checked.len() >= 495,
            "{} of 500 took their turn",
            checked.len()
        );
        let shared = fleet.ask(checker_name("payments", "web", "7"), None);
        assert!(!matches!(
            shared,
            Plan::Shared {
                verdict: Verdict::Unknown,
                ..
            }
        ));
    }
}

#[test]
fn observers_that_fall_silent_are_replaced_within_three_periods() {
    let mut fleet = Fleet::new(policy(Phase::Hash), 6);
    fleet.policy.observers = 1;
    let names: Vec<u64> = (0..50).map(|replica| fleet.join(replica)).collect();
    fleet.run_for(5.0);
    // All but the last ten stop without a word.
    fleet.asks.retain(|(_, name), _| names[40..].contains(name));
    fleet.run_for(3.0);
    let age = fleet.checks.age(fleet.now).unwrap();
    assert!(age <= secs(90.0), "{age}");
}

#[test]
fn b38a_a_restart_fills_the_period_and_second_runs_keep_their_phase() {
    for phase in [Phase::Hash, Phase::Spread] {
        let mut fleet = Fleet::new(policy(phase), 7);
        let names: Vec<u64> = (0..1000).map(|replica| fleet.join(replica)).collect();
        fleet.run_for(2.2);
        let mut seconds = [0_u32; 34];
        for name in names {
            let starts: Vec<Time> = (fleet.runs.iter())
                .filter(|run| run.2 == name)
                .map(|run| run.0)
                .collect();
            seconds[(starts[0].since(START).0 / 1_000_000_000) as usize] += 1;
            let spacing = starts[0].until(starts[1]).0 as f64 / 1e9;
            assert!((spacing - 30.0).abs() <= 3.0, "{phase:?}: {spacing}");
        }
        assert_eq!(seconds.iter().sum::<u32>(), 1000);
        assert!(seconds.iter().all(|count| *count <= 65), "{seconds:?}");
    }
}

#[test]
fn b38b_a_phase_is_the_same_after_a_restart_and_another_for_each_replica() {
    let start_of = |replica: &str, at: Time| {
        let (policy, mut checks) = (policy(Phase::Hash), Checks::default());
        let name = checker_name("payments", "web", replica);
        match plan(&policy, &mut checks, name, None, at, Sample::default()) {
            Plan::Run { delay, .. } => (at + delay).0 % policy.period.0,
            Plan::Shared { .. } => panic!("no observers are set"),
        }
    };
    let later = START + secs(12_345.6);
    assert_eq!(start_of("a", START), start_of("a", later));
    assert!(start_of("a", START).abs_diff(start_of("b", START)) > 1_000_000);
    assert_ne!(checker_name("ab", "c", ""), checker_name("a", "bc", ""));
}

#[test]
fn b38c_the_first_run_is_within_first_within_and_spread() {
    let mut fleet = Fleet::new(policy(Phase::Hash), 8);
    fleet.policy.period = secs(1800.0);
    fleet.policy.first_within = secs(60.0);
    (0..1000).for_each(|replica| {
        fleet.join(replica);
    });
    fleet.run_to(START);
    let firsts: Vec<Nanos> = fleet.runs.iter().map(|run| run.0.since(START)).collect();
    assert!(firsts.iter().all(|first| *first <= secs(60.0)));
    let early = firsts.iter().filter(|first| **first < secs(30.0)).count();
    assert!((400..600).contains(&early), "{early} in the first half");
    fleet.run_for(2.0);
    let runs = fleet.runs.iter().filter(|run| run.0 <= fleet.now).count();
    assert!(
        (2_900..=3_100).contains(&runs),
        "{runs}: one beside the grid, then on it"
    );
}

#[test]
fn b38d_nothing_is_healthy_or_unhealthy_before_it_was_seen_to_be() {
    let mut fleet = Fleet::new(policy(Phase::Hash), 9);
    fleet.policy.observers = 1;
    let (one, other) = (fleet.join(1), fleet.join(2));
    let plans = [fleet.ask(one, None), fleet.ask(other, None)];
    for plan in plans {
        if let Plan::Shared { verdict, age, .. } = plan {
            assert_eq!((verdict, age), (Verdict::Unknown, None));
        }
    }
    assert_eq!(fleet.checks.verdict(), Verdict::Unknown);
    fleet.healthy = false;
    fleet.run_for(2.5);
    assert_eq!(
        fleet.checks.verdict(),
        Verdict::Unknown,
        "two of three failures"
    );
    fleet.run_for(2.0);
    assert_eq!(fleet.checks.verdict(), Verdict::Unhealthy);
    fleet.healthy = true;
    fleet.run_for(2.0);
    assert_eq!(fleet.checks.verdict(), Verdict::Healthy);
}

#[test]
fn no_more_checks_run_at_once_than_max_concurrent() {
    for seed in 0..50 {
        let mut fleet = Fleet::new(policy(Phase::Hash), seed);
        fleet.policy.max_concurrent = 1 + (seed % 5) as u32;
        fleet.policy.first_within = secs(5.0);
        fleet.longest = 1.0;
        // As many as fit when all of them time out.
        let fitting = 15 * u64::from(fleet.policy.max_concurrent) * 9 / 10;
        (0..fitting).for_each(|replica| {
            fleet.join(replica);
        });
        fleet.run_for(20.0);
        let mut edges: Vec<(Time, i32)> = (fleet.runs.iter())
            .flat_map(|(start, end, _)| [(*start, 1), (*end, -1)])
            .collect();
        edges.sort_unstable();
        let (mut out, mut most) = (0, 0);
        for (_, edge) in edges {
            out += edge;
            most = most.max(out);
        }
        assert!(
            most <= fleet.policy.max_concurrent as i32,
            "seed {seed}: {most}"
        );
        let runs = fleet.runs.len() as u64;
        assert!(
            runs >= fitting * 19,
            "seed {seed}: {runs} runs of {fitting} checkers"
        );
    }
}

#[test]
fn a_check_that_is_late_or_long_takes_the_next_grid_time_and_catches_nothing_up() {
    let mut fleet = Fleet::new(policy(Phase::Hash), 10);
    let name = fleet.join(1);
    let Plan::Run { delay, serial, .. } = fleet.ask(name, None) else {
        panic!("no observers are set")
    };
    let grid = fleet.now + delay;
    fleet.now = grid + secs(100.0);
    let healthy = true;
    let Plan::Run { delay, .. } = fleet.ask(name, Some(Finished { serial, healthy })) else {
        panic!("no observers are set")
    };
    let passed = grid.until(fleet.now + delay).0 as f64 / 1e9;
    assert!((passed - 120.0).abs() <= 3.0, "{passed}");
    let again = fleet.ask(name, None);
    assert!(
        matches!(again, Plan::Run { delay: same, .. } if same == delay),
        "{again:?}"
    );
}

#[test]
fn a_result_counts_once_and_only_for_the_run_it_is_of() {
    let mut fleet = Fleet::new(policy(Phase::Hash), 11);
    fleet.policy.unhealthy_after = 2;
    let name = fleet.join(1);
    let Plan::Run { serial, .. } = fleet.ask(name, None) else {
        panic!("no observers are set")
    };
    let failed = |serial| {
        Some(Finished {
            serial,
            healthy: false,
        })
    };
    fleet.ask(name, failed(serial + 7));
    assert_eq!(fleet.checks.age(fleet.now), None);
    let Plan::Run { serial, .. } = fleet.ask(name, None) else {
        panic!("no observers are set")
    };
    fleet.ask(name, failed(serial));
    fleet.ask(name, failed(serial));
    assert_eq!(fleet.checks.verdict(), Verdict::Unknown);
}

#[test]
fn checkers_are_bounded_and_those_that_stay_away_are_forgotten() {
    let mut fleet = Fleet::new(policy(Phase::Hash), 12);
    for replica in 0..CHECKERS_MAX as u64 + 10 {
        let name = fleet.join(replica);
        let told = fleet.ask(name, None);
        let beyond = replica >= CHECKERS_MAX as u64;
        assert_eq!(matches!(told, Plan::Shared { .. }), beyond, "{replica}");
    }
    assert_eq!(fleet.checks.checkers(), CHECKERS_MAX);
    fleet.now = fleet.now + secs(30.0 * 3.0 + 33.0 + 2.0);
    let name = fleet.join(1_000_000);
    fleet.ask(name, None);
    assert_eq!(fleet.checks.checkers(), 1);
}

/// Checkers that come late, ask twice, lose results, stop and come back, under policies
/// that change.
#[test]
fn whatever_checkers_do_no_checks_of_one_overlap_and_no_more_run_than_may() {
    for seed in 0..400 {
        let mut fleet = Fleet::new(policy(Phase::Spread), seed);
        if seed % 2 == 0 {
            fleet.policy.phase = Phase::Hash;
        }
        fleet.policy.max_concurrent = 1 + (seed % 4) as u32;
        fleet.policy.observers = (seed % 5) as u32;
        let names: Vec<u64> = (0..20).map(|replica| fleet.join(replica)).collect();
        fleet.asks.clear();
        // What each was told to run, of which it has not told the end.
        let mut told = BTreeMap::<u64, (Time, u64)>::new();
        for _ in 0..300 {
            fleet.now = fleet.now + Nanos(fleet.draws.below(2_500_000_000));
            let name = names[fleet.draws.below(20) as usize];
            let due = told.get(&name).filter(|(start, _)| fleet.now >= *start);
            let last = match (due.copied(), fleet.draws.below(4)) {
                (Some((_, serial)), 1..) => {
                    let healthy = fleet.draws.below(2) == 0;
                    Some(Finished { serial, healthy })
                }
                (Some(_), _) | (None, _) => None,
            };
            let before = told.get(&name).copied();
            match fleet.ask(name, last) {
                Plan::Run { delay, serial, .. } => {
                    let start = fleet.now + delay;
                    let again = before.is_some_and(|(_, known)| known == serial);
                    assert!(!again || before == Some((start, serial)), "seed {seed}");
                    told.insert(name, (start, serial));
                }
                Plan::Shared { age, verdict, .. } => {
                    assert_eq!(age.is_none(), fleet.checks.age(fleet.now).is_none());
                    assert!(age.is_some() || verdict == Verdict::Unknown);
                    told.remove(&name);
                }
            }
            let timeout = fleet.policy.timeout;
            for (at, _) in told.values() {
                let out = told
                    .values()
                    .filter(|(start, _)| *start <= *at && *at < *start + timeout);
                assert!(
                    out.count() <= fleet.policy.max_concurrent as usize,
                    "seed {seed}"
                );
            }
            if fleet.draws.below(40) == 0 {
                let gone = names[fleet.draws.below(20) as usize];
                fleet.checks.leave(gone, fleet.now);
                told.remove(&gone);
            }
        }
        assert!(fleet.checks.checkers() <= 20);
    }
}

#[test]
fn the_end_of_time_and_odd_policies_are_no_edge() {
    for phase in [Phase::Hash, Phase::Spread] {
        let odd = Check {
            period: Nanos::ZERO,
            offset: Nanos::MAX,
            phase,
            first_within: Nanos::MAX,
            timeout: Nanos::MAX,
            unhealthy_after: 0,
            max_concurrent: 0,
            detection_budget: Nanos::ZERO,
            observers: u32::MAX,
        };
        for now in [Time::ORIGIN, Time::MAX, Time(5)] {
            let mut checks = Checks::default();
            for name in [0, 1, u64::MAX, 1] {
                let last = Some(Finished {
                    serial: 1,
                    healthy: false,
                });
                plan(&odd, &mut checks, name, last, now, Sample::default());
            }
        }
    }
}
