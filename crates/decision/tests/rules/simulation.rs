//! Whole fleets on virtual time, under faults: one seed, one story.
//!
//! A policy, a fleet, an outage and a plan of faults are drawn from a seed; then clients ask,
//! call, retry, confirm and tally over a network that loses, doubles, delays and reorders, and
//! clients and coordinator pause, die and start again with what the disk had. The rules are the
//! real ones. What must be true is checked at every event from outside of them (`truth`), and
//! in the end, when nothing goes wrong any more, the breaker must close within a bound that
//! the scenario states.
//!
//! A start that finds nothing on its disk cannot know of probes of the run before until a caller
//! shows a permit of that run. Until then at most `probes` are out of each run; from then on, and
//! after every other start, of all runs together.
//!
//! ```text
//! HOLDOFF_SEED=17 cargo test -p holdoff-decision --test rules over_10_000 -- --nocapture
//!     one story, told event by event
//! HOLDOFF_SEEDS=1000000 cargo test -p holdoff-decision --test rules over_10_000
//!     more of them
//! ```
//!
//! Then each mechanism is taken away in turn, and a seed must find the harm: what
//! [`exhaustive`](crate::exhaustive) does for a small world, this does for large ones.

mod callers;
mod client;
mod coordinator;
mod deeds;
mod draws;
mod hearing;
mod messages;
mod scenario;
mod truth;
mod world;

use std::{
    num::NonZero,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use self::{
    truth::Harm,
    world::{Failure, Seen, World},
};

const SEEDS: u64 = 10_000;

/// What is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// No restart keeps probes back.
    Quarantine,
    /// A restart that finds nothing does not, though a caller has shown it that it is one.
    QuarantineOfTheEmpty,
    /// Leases are forgotten when the breaker opens again.
    LeasesThatOutliveTransitions,
    /// A permit may be reported again.
    CountingOnce,
    /// A client goes on with a probe whose lease has ended.
    GivingUp,
    /// Reports of another epoch count as of this one.
    Fencing,
    /// Permits of the run before are taken for those of this one.
    BootEpoch,
    /// A restart finds every breaker closed.
    DurableTrips,
    /// A restart forgets what operators ordered.
    DurableOrders,
    /// A restart does not raise the boot epoch.
    BootsThatRise,
    /// Each transition gives the fleet its retries back.
    BudgetsThatOutliveTransitions,
    /// A lease that nobody reports does not end.
    Reclaim,
    /// First attempts that the breaker spares go also where a probe is free.
    AskingForSparedProbes,
}

/// One seed's story: what it has seen, or how it failed.
fn tell(seed: u64, without: Without) -> Result<Seen, Failure> {
    let mut world = World::new(seed, without, false);
    world.run().map(|()| world.seen)
}

fn traced(seed: u64, without: Without) -> Vec<String> {
    let mut world = World::new(seed, without, true);
    // How it ends is the last line.
    let _ = world.run();
    world.trace.unwrap_or_default()
}

/// The first seed of `0..seeds` that fails, or what all of them have seen.
fn tell_all(seeds: u64, without: Without) -> Result<Seen, (u64, Failure)> {
    let next = AtomicU64::new(0);
    let work = || {
        let (mut all, mut first) = (Seen::default(), None);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return (all, first);
            }
            match tell(seed, without) {
                Ok(seen) => all.add(&seen),
                Err(failure) => {
                    next.fetch_max(seeds, Ordering::Relaxed);
                    first = Some((seed, failure));
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let parts: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let parts = workers.into_iter().map(|worker| worker.join().unwrap());
        parts.collect()
    });
    let failed = parts.iter().filter_map(|(_, first)| first.clone());
    match failed.min_by_key(|(seed, _)| *seed) {
        Some(failure) => Err(failure),
        None => {
            let mut all = Seen::default();
            parts.iter().for_each(|(seen, _)| all.add(seen));
            Ok(all)
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

#[test]
fn over_10_000_seeds_never_more_than_the_probes_and_the_breaker_always_closes_in_the_end() {
    if let Some(seed) = number("HOLDOFF_SEED") {
        for line in traced(seed, Without::Nothing) {
            println!("{line}");
        }
        tell(seed, Without::Nothing).unwrap();
        return;
    }
    let seeds = number("HOLDOFF_SEEDS").unwrap_or(SEEDS);
    match tell_all(seeds, Without::Nothing) {
        Err((seed, failure)) => {
            for line in traced(seed, Without::Nothing) {
                println!("{line}");
            }
            panic!(
                "{:?} at {:?}: {}\nreplay: HOLDOFF_SEED={seed} cargo test -p holdoff-decision --test \
                 rules over_10_000 -- --nocapture",
                failure.harm, failure.at, failure.detail
            );
        }
        Ok(seen) => {
            println!("{seeds} seeds: {seen:#?}");
            // A story in which nothing happens proves nothing.
            for (what, many, at_least) in [
                ("trips", seen.trips, 2 * seeds),
                ("probes", seen.probes, 3 * seeds),
                ("restarts", seen.restarts, seeds),
                ("lost messages", seen.lost, 10 * seeds),
                ("doubled messages", seen.doubled, 10 * seeds),
                ("duplicate reports", seen.duplicates, seeds),
                ("stale reports", seen.stale, seeds),
                ("probes given up", seen.given_up, seeds / 50),
                ("retries", seen.retries, seeds),
                ("calls on pushed state", seen.pushed_calls, seeds),
                ("probes at once", seen.probes_held, 4),
                ("probes of the unaware", seen.unaware_probes, seeds / 100),
            ] {
                assert!(many >= at_least, "{many} {what}, at least {at_least}");
            }
        }
    }
}

#[test]
fn a_seed_replays() {
    for seed in [0, 1, 4_711] {
        let (once, again) = (
            traced(seed, Without::Nothing),
            traced(seed, Without::Nothing),
        );
        assert!(once.len() > 50);
        assert_eq!(once, again, "seed {seed}");
    }
    assert_ne!(traced(0, Without::Nothing), traced(1, Without::Nothing));
}

#[test]
fn seeds_find_each_mechanism_that_is_taken_away() {
    for (without, harm) in [
        (Without::Quarantine, Harm::TooManyProbes),
        (Without::QuarantineOfTheEmpty, Harm::TooManyProbes),
        (Without::LeasesThatOutliveTransitions, Harm::TooManyProbes),
        (Without::GivingUp, Harm::TooManyProbes),
        (Without::CountingOnce, Harm::CountedTwice),
        (Without::Fencing, Harm::StaleCounted),
        (Without::BootEpoch, Harm::StaleCounted),
        (Without::BootsThatRise, Harm::EpochFell),
        (Without::DurableTrips, Harm::EarlyGrant),
        (Without::DurableOrders, Harm::ForcedOpenGrant),
        (Without::BudgetsThatOutliveTransitions, Harm::OverBudget),
        (Without::Reclaim, Harm::NotClosed),
        (Without::AskingForSparedProbes, Harm::NotClosed),
    ] {
        let does = |seed: &u64| tell(*seed, without).is_err_and(|failure| failure.harm == harm);
        let found = (0..SEEDS).find(does);
        println!("without {without:?}: {harm:?} in seed {found:?}");
        assert!(found.is_some(), "{without:?} in {SEEDS} seeds");
    }
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.trips += other.trips;
        self.probes += other.probes;
        self.unaware_probes += other.unaware_probes;
        self.probes_held = self.probes_held.max(other.probes_held);
        self.restarts += other.restarts;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.duplicates += other.duplicates;
        self.stale += other.stale;
        self.given_up += other.given_up;
        self.retries += other.retries;
        self.refusals += other.refusals;
        self.confirmed += other.confirmed;
        self.pushed_calls += other.pushed_calls;
        self.longest_to_close = self.longest_to_close.max(other.longest_to_close);
    }
}
