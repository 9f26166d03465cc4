//! The fleet's one clock: the store's, carried on by each replica's own between two looks.
//!
//! ```text
//! fleet time = the store's time - skew            skew: what its steps have come to
//! a look     sent <= the store read its clock <= received, so the offset of fleet time to the
//!            replica's own lies within [fleet time - received, fleet time - sent]
//! now        own time + offset, and never less than was told before
//! ```
//!
//! The offset in use is the low end of that range, so no replica is ahead of the store but by
//! the drift of its own clock between looks. Where a look says something that is further away
//! than 50 ms, the store's clock was stepped, by hand, by a fail-over to another machine, or by
//! its time service. The fleet does not follow: the step is added to the skew, which is
//! kept in the store for all. So no open period becomes an hour shorter or longer by it; one
//! look moves the clock forward by 50 ms at most, besides catching up with the fleet.
//!
//! A replica that was behind (a machine that slept, a start) catches up with the latest time
//! that any replica has told: time that has been seen by anyone has been.
//!
//! Every decision reads this clock, so reading writes nothing: a look counts `changes` up before and
//! after it, and who has read across one reads again. The time of a clock that is put back is kept
//! as the least that is told from then on.
//!
//! Why not the store's time as it comes: it is the wall clock of a machine, and one that is set
//! back would keep breakers open for as long.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI64, AtomicU64, Ordering, fence},
};

use holdoff_decision::{Nanos, Time};

/// What a look may differ by without a step: more than any answer may take.
const TOLERANCE: i128 = 50_000_000;

/// A processor may read its clock so much later than the program says.
const REORDERED: Nanos = Nanos(1_000);

/// See the module.
#[derive(Debug)]
pub struct FleetClock {
    own: OwnClock,
    /// Odd while a look changes the two below.
    changes: AtomicU64,
    /// Fleet time less own time.
    offset: AtomicI64,
    /// No earlier time is told.
    least: AtomicU64,
    /// Whether there was a first look. Held by who changes anything.
    has_looked: Mutex<bool>,
}

/// A monotonic clock of this process.
#[derive(Debug)]
enum OwnClock {
    Monotonic(quanta::Instant),
    Manual(std::sync::Arc<AtomicU64>),
    /// The runtime's, which may be paused; since then.
    Runtime(tokio::time::Instant),
    /// Moved by a test for all replicas at once; no look changes it.
    Common(std::sync::Arc<AtomicU64>),
}

/// One look at the store's clock; `sent` and `received` by the replica's own.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub sent: Time,
    pub received: Time,
    pub store: Time,
    pub kept: Kept,
}

/// What the replicas keep of the clock in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The store's time less the fleet's, in nanoseconds.
    pub skew: i64,
    /// The latest fleet time that was kept.
    pub latest: Time,
    /// The store's time when it was kept first. Another one: the store was emptied since.
    pub begun: Time,
}

impl FleetClock {
    pub fn new() -> Self {
        Self::of(OwnClock::Monotonic(quanta::Instant::now()))
    }

    /// By an own clock that a test moves.
    pub fn manual(own: std::sync::Arc<AtomicU64>) -> Self {
        Self::of(OwnClock::Manual(own))
    }

    /// By the clock of the runtime, which a test or a simulation may have paused.
    pub fn of_runtime() -> Self {
        Self::of(OwnClock::Runtime(super::instant()))
    }

    /// The same for all replicas that have it, and moved by a test alone.
    pub fn common(time: std::sync::Arc<AtomicU64>) -> Self {
        Self::of(OwnClock::Common(time))
    }

    fn of(own: OwnClock) -> Self {
        Self {
            own,
            changes: AtomicU64::new(0),
            offset: AtomicI64::new(0),
            least: AtomicU64::new(0),
            has_looked: Mutex::new(false),
        }
    }

    /// This process's own time: for measuring looks.
    pub fn own(&self) -> Time {
        match &self.own {
            OwnClock::Monotonic(started) => Time::ORIGIN + Nanos::from(started.elapsed()),
            OwnClock::Manual(now) | OwnClock::Common(now) => Time(now.load(Ordering::Relaxed)),
            OwnClock::Runtime(began) => Time::ORIGIN + Nanos::from(began.elapsed()),
        }
    }

    /// The fleet's time; never less than it was before.
    pub fn now(&self) -> Time {
        loop {
            let before = self.changes.load(Ordering::Acquire);
            let now = self.told_at(self.own());
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == before {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    fn told_at(&self, own: Time) -> Time {
        let least = self.least.load(Ordering::Relaxed);
        let now = at(own, i128::from(self.offset.load(Ordering::Relaxed)));
        Time(least.max(now.0))
    }

    /// Called by one at a time.
    fn change_offset(&self, offset: i128) {
        let bounds = (i128::from(i64::MIN), i128::from(i64::MAX));
        let offset = offset.clamp(bounds.0, bounds.1) as i64;
        if offset == self.offset.load(Ordering::Relaxed) {
            return;
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        // Whoever is not told to read again has read before, but for what a processor reorders.
        let told = self.told_at(self.own()) + REORDERED;
        self.least.store(told.0, Ordering::Relaxed);
        self.offset.store(offset, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Takes what a look says, and gives what is to be kept of it.
    pub fn take(&self, look: &Look) -> Kept {
        let fleet = i128::from(look.store.0) - i128::from(look.kept.skew);
        let (low, high) = (
            fleet - i128::from(look.received.0),
            fleet - i128::from(look.sent.0),
        );
        let mut skew = i128::from(look.kept.skew);
        if let OwnClock::Common(_) = self.own {
            let latest = self.now();
            return Kept {
                skew: 0,
                latest,
                begun: look.begun(),
            };
        }
        {
            let mut has_looked = (self.has_looked.lock()).unwrap_or_else(PoisonError::into_inner);
            // Somebody has told a later time: it has been.
            let caught_up = i128::from(look.kept.latest.0) - i128::from(look.received.0);
            let before = match std::mem::replace(&mut *has_looked, true) {
                true => i128::from(self.offset.load(Ordering::Relaxed)).max(caught_up),
                false => low.max(caught_up),
            };
            let now = match (low - before, high - before) {
                (ahead, _) if ahead > TOLERANCE => {
                    skew += ahead;
                    before
                }
                (_, behind) if behind < -TOLERANCE => {
                    skew += behind;
                    before
                }
                (ahead, _) if ahead > 0 => low,
                (_, behind) if behind < 0 => high,
                _ => before,
            };
            self.change_offset(now);
        }
        Kept {
            skew: i64::try_from(skew).unwrap_or_default(),
            latest: self.now(),
            begun: look.begun(),
        }
    }
}

impl Look {
    fn begun(&self) -> Time {
        match self.kept.begun {
            Time::ORIGIN => self.store,
            begun => begun,
        }
    }
}

impl Default for FleetClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Kept {
    pub fn to_bytes(self) -> Vec<u8> {
        let begun = self.begun.0.to_le_bytes();
        [self.skew.to_le_bytes(), self.latest.0.to_le_bytes(), begun].concat()
    }

    /// `None`: the bytes are none of ours.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (skew, rest) = bytes.split_first_chunk()?;
        let (latest, begun) = rest.split_first_chunk()?;
        Some(Self {
            skew: i64::from_le_bytes(*skew),
            latest: Time(u64::from_le_bytes(*latest)),
            begun: Time(u64::from_le_bytes(begun.try_into().ok()?)),
        })
    }
}

fn at(own: Time, offset: i128) -> Time {
    let nanos = (i128::from(own.0) + offset).clamp(0, i128::from(u64::MAX));
    Time(nanos as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const START: u64 = 1_700_000_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    /// A replica and the store's clock, on one true time.
    struct Replica {
        own: Arc<AtomicU64>,
        clock: FleetClock,
    }

    impl Replica {
        fn new() -> Self {
            let own = Arc::new(AtomicU64::new(5 * SECOND));
            let clock = FleetClock::manual(Arc::clone(&own));
            Self { own, clock }
        }

        fn pass(&self, nanos: u64) {
            self.own.fetch_add(nanos, Ordering::Relaxed);
        }

        /// Looks; the answer takes 2 ms.
        fn look(&self, store: &mut u64, kept: &mut Kept) {
            let sent = self.clock.own();
            self.pass(2_000_000);
            *store += 2_000_000;
            *kept = self.clock.take(&Look {
                sent,
                received: self.clock.own(),
                store: Time(*store - 1_000_000),
                kept: *kept,
            });
        }
    }

    #[test]
    fn it_is_the_stores_and_never_ahead_of_it() {
        let (replica, mut store, mut kept) = (Replica::new(), START, Kept::default());
        replica.look(&mut store, &mut kept);
        for _ in 0..100 {
            let behind = store - replica.clock.now().0;
            assert!(behind <= 2_000_000, "{behind}");
            replica.pass(SECOND);
            store += SECOND;
            replica.look(&mut store, &mut kept);
        }
        assert_eq!(kept.skew, 0);
    }

    #[test]
    fn a_step_of_an_hour_either_way_changes_no_duration() {
        let hour = 3_600 * SECOND as i64;
        for step in [hour, -hour] {
            let (replica, mut store, mut kept) = (Replica::new(), START, Kept::default());
            replica.look(&mut store, &mut kept);
            let before = replica.clock.now();
            store = store.wrapping_add_signed(step);
            for _ in 0..10 {
                replica.pass(SECOND);
                store += SECOND;
                replica.look(&mut store, &mut kept);
            }
            let passed = replica.clock.now().since(before).0;
            let real = 10 * (SECOND + 2_000_000);
            assert!(passed.abs_diff(real) < 5_000_000, "{passed} of {real}");
            assert!((kept.skew - step).abs() < 5_000_000, "{}", kept.skew);
            // A replica that starts now has the same time as the others.
            let late = Replica::new();
            late.look(&mut store, &mut kept);
            replica.pass(2_000_000);
            assert!(late.clock.now().0.abs_diff(replica.clock.now().0) < 5_000_000);
        }
    }

    #[test]
    fn two_replicas_agree_after_a_step_and_do_not_fight_over_it() {
        let (one, two) = (Replica::new(), Replica::new());
        let (mut store, mut kept) = (START, Kept::default());
        for round in 0..30 {
            if round == 10 {
                store += 3_600 * SECOND;
            }
            one.look(&mut store, &mut kept);
            two.pass(2_000_000);
            two.look(&mut store, &mut kept);
            one.pass(2_000_000 + SECOND);
            two.pass(SECOND);
            store += SECOND;
            let apart = one.clock.now().0.abs_diff(two.clock.now().0);
            assert!(apart < 10_000_000, "{apart} in round {round}");
        }
        assert!((kept.skew - 3_600 * SECOND as i64).abs() < 20_000_000);
    }

    #[test]
    fn one_that_slept_catches_up_with_the_others() {
        let (one, two) = (Replica::new(), Replica::new());
        let (mut store, mut kept) = (START, Kept::default());
        one.look(&mut store, &mut kept);
        two.look(&mut store, &mut kept);
        // Its own clock stood still for ten minutes.
        one.pass(600 * SECOND);
        store += 600 * SECOND;
        one.look(&mut store, &mut kept);
        two.look(&mut store, &mut kept);
        assert!(one.clock.now().since(two.clock.now()).0 < 10_000_000);
        assert!(kept.skew.abs() < 10_000_000, "{}", kept.skew);
    }

    #[test]
    fn it_never_goes_back() {
        let (replica, mut store, mut kept) = (Replica::new(), START, Kept::default());
        let mut last = Time::ORIGIN;
        for round in 0..200_u64 {
            store =
                store.wrapping_add_signed(((round * 7_919) % 100) as i64 * 1_000_000 - 49_000_000);
            replica.look(&mut store, &mut kept);
            let now = replica.clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
