//! What is counted while a run goes on, in tenths of a second.
//!
//! Nothing is decided here, and nothing is kept for each call: a call moves some counters when
//! it is sent, when it arrives and when it ends.

mod figures;
mod series;

use crate::{
    results::{BreakerState, Counters},
    timeline::Timeline,
};

/// The length of a bucket, in nanoseconds.
pub const TICK: u64 = 100_000_000;
const SECOND: u64 = 1_000_000_000;
/// An operation that is pending for so long is late.
const LATE_AFTER: u64 = SECOND;

/// How an attempt ended, for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Served,
    /// An error.
    Failed,
    /// Too many; the wait that was asked for, in nanoseconds.
    Throttled(Option<u64>),
    TimedOut,
    /// A layer below has given up; whether it had retried.
    GivenUpBelow {
        retried: bool,
    },
}

/// Counters of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub operations: u64,
    pub operations_succeeded: u64,
    pub operations_failed: u64,
    pub calls: u64,
    pub calls_succeeded: u64,
    pub calls_failed: u64,
    pub calls_timed_out: u64,
    pub calls_throttled: u64,
    pub calls_while_down: u64,
    pub rejected_for_load: u64,
    pub served_in_vain: u64,
    pub refused: u64,
    pub questions: u64,
    pub reports: u64,
    pub pushes: u64,
    pub decided_alone: u64,
}

/// One run.
#[derive(Debug)]
pub struct Measure {
    pub counts: Counts,
    clients: u32,
    end: u64,
    first_begin: Option<u64>,
    last_end: Option<u64>,
    /// Calls that arrived, operations that succeeded, calls that were wasted.
    arrived: Vec<u32>,
    good: Vec<u32>,
    wasted: Vec<u32>,
    in_flight: u64,
    in_flight_since: u64,
    /// Call-seconds.
    in_flight_sum: Vec<f64>,
    /// How many operations become late, less those that end it.
    late_change: Vec<i64>,
    open_share: Vec<f64>,
    states: Vec<BreakerState>,
    /// Operations that began in each second, and how many of them succeeded and failed.
    begun: Vec<[u32; 3]>,
    /// After recovery, when those that waited then were served.
    served: Vec<u64>,
    waited_in_vain: u64,
    still_waiting: u64,
    /// In hand at the end.
    pending: u64,
    /// Operations that began after recovery and ended: well, or not.
    late_succeeded: u64,
    late_failed: u64,
    opened: Vec<u64>,
    fleet_opened: Option<u64>,
}

impl Measure {
    pub fn new(clients: u32, end: u64, timeline: &Timeline) -> Self {
        let ticks = end.div_ceil(TICK) as usize;
        Self {
            counts: Counts::default(),
            clients,
            end,
            first_begin: timeline.first_begin,
            last_end: timeline.last_end,
            arrived: vec![0; ticks],
            good: vec![0; ticks],
            wasted: vec![0; ticks],
            in_flight: 0,
            in_flight_since: 0,
            in_flight_sum: vec![0.0; ticks],
            late_change: vec![0; ticks + 1],
            open_share: Vec::with_capacity(ticks),
            states: Vec::new(),
            begun: vec![[0; 3]; end.div_ceil(SECOND) as usize],
            served: Vec::new(),
            waited_in_vain: 0,
            still_waiting: 0,
            pending: 0,
            late_succeeded: 0,
            late_failed: 0,
            opened: Vec::new(),
            fleet_opened: None,
        }
    }

    pub fn operation_began(&mut self, now: u64) {
        self.counts.operations += 1;
        self.note_begun(now, 0);
    }

    pub fn operation_ended(&mut self, began: u64, now: u64, succeeded: bool) {
        self.note_late(began, now);
        let waited = self.last_end.is_some_and(|end| began <= end && now > end);
        match succeeded {
            true => {
                self.counts.operations_succeeded += 1;
                self.late_succeeded += u64::from(self.is_after(began));
                add(&mut self.good, now, 1);
                self.note_begun(began, 1);
                if waited {
                    self.served.push(now);
                }
            }
            false => {
                self.counts.operations_failed += 1;
                self.note_begun(began, 2);
                self.waited_in_vain += u64::from(waited);
                self.late_failed += u64::from(self.is_after(began));
            }
        }
    }

    /// One that is in hand at the end of the run.
    pub fn operation_pending(&mut self, began: u64) {
        self.pending += 1;
        self.note_late(began, self.end);
        let waited = self.last_end.is_some_and(|end| began <= end);
        self.still_waiting += u64::from(waited);
    }

    pub fn call_sent(&mut self, now: u64) {
        self.counts.calls += 1;
        self.move_in_flight(now);
        self.in_flight += 1;
    }

    pub fn call_arrived(&mut self, now: u64, is_down: bool) {
        add(&mut self.arrived, now, 1);
        self.counts.calls_while_down += u64::from(is_down);
    }

    pub fn call_ended(&mut self, sent: u64, now: u64, end: End) {
        self.move_in_flight(now);
        self.in_flight -= 1;
        let counter = match end {
            End::Served => &mut self.counts.calls_succeeded,
            End::Failed | End::GivenUpBelow { .. } => &mut self.counts.calls_failed,
            End::Throttled(_) => &mut self.counts.calls_throttled,
            End::TimedOut => &mut self.counts.calls_timed_out,
        };
        *counter += 1;
        if end != End::Served {
            add(&mut self.wasted, sent, 1);
        }
    }

    /// One client's own breaker opened for the first time since the first disturbance began.
    pub fn client_opened(&mut self, now: u64) {
        self.opened.push(now);
    }

    /// The fleet's breaker opened.
    pub fn fleet_opened(&mut self, now: u64) {
        if self.first_begin.is_some_and(|begin| now >= begin) {
            self.fleet_opened.get_or_insert(now);
        }
    }

    pub fn clients(&self) -> u32 {
        self.clients
    }

    pub fn first_begin(&self) -> Option<u64> {
        self.first_begin
    }

    /// The next instant at which the state is looked at.
    pub fn next_look(&self) -> u64 {
        (self.open_share.len() as u64 + 1) * TICK
    }

    /// The state at the end of a bucket. No state: nothing is shared.
    pub fn look(&mut self, open_share: f64, state: Option<BreakerState>) {
        self.open_share.push(open_share);
        self.states.extend(state);
    }

    pub fn counters(&self) -> Counters {
        let it = &self.counts;
        let number = |count: u64| count as f64;
        Counters {
            operations: number(it.operations),
            operations_succeeded: number(it.operations_succeeded),
            operations_failed: number(it.operations_failed),
            operations_pending: number(self.pending),
            calls: number(it.calls),
            calls_succeeded: number(it.calls_succeeded),
            calls_failed: number(it.calls_failed),
            calls_timed_out: number(it.calls_timed_out),
            calls_throttled: number(it.calls_throttled),
            calls_in_flight: number(self.in_flight),
            calls_wasted: number(it.calls_failed + it.calls_timed_out + it.calls_throttled),
            calls_while_down: number(it.calls_while_down),
            rejected_for_load: number(it.rejected_for_load),
            served_in_vain: number(it.served_in_vain),
            refused: number(it.refused),
            questions: number(it.questions),
            reports: number(it.reports),
            pushes: number(it.pushes),
            decided_alone: number(it.decided_alone),
        }
    }

    fn is_after(&self, time: u64) -> bool {
        self.last_end.is_some_and(|end| time >= end)
    }

    fn note_begun(&mut self, began: u64, which: usize) {
        if let Some(second) = self.begun.get_mut((began / SECOND) as usize) {
            second[which] += 1;
        }
    }

    fn note_late(&mut self, began: u64, until: u64) {
        let last = self.late_change.len() - 1;
        let from = (began + LATE_AFTER).div_ceil(TICK).min(last as u64) as usize;
        let to = until.div_ceil(TICK).min(last as u64) as usize;
        if from < to {
            self.late_change[from] += 1;
            self.late_change[to] -= 1;
        }
    }

    fn move_in_flight(&mut self, now: u64) {
        while self.in_flight_since < now {
            let tick = self.in_flight_since / TICK;
            let until = now.min((tick + 1) * TICK);
            let seconds = (until - self.in_flight_since) as f64 / 1e9;
            if let Some(sum) = self.in_flight_sum.get_mut(tick as usize) {
                *sum += seconds * self.in_flight as f64;
            }
            self.in_flight_since = until;
        }
    }
}

fn add(buckets: &mut [u32], at: u64, count: u32) {
    if let Some(bucket) = buckets.get_mut((at / TICK) as usize) {
        *bucket += count;
    }
}
