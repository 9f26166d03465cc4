//! What becomes of a report.
//!
//! A permit counts once: the first report wins. A report of another epoch says nothing
//! about the present state, but it is answered, and its lease returns. The answer always
//! says which.

use crate::{
    Nanos, Policy, Record, Time,
    breaker::Ended,
    bytes::fields,
    evidence::Heard,
    permit::{Outcome, OutcomeKind, Permit, Reported},
    policy,
    record::Context,
    tickets::Ticket,
    window::Counts,
};

/// Attempts that one client made on pushed state, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The epoch of the pushed state.
    pub epoch: u64,
    /// Attempts that started; the others are attempts that ended.
    pub first_attempts: u32,
    pub successes: u32,
    pub failures: u32,
    pub timeouts: u32,
    pub throttled: u32,
    pub rejected: u32,
    /// Of those that ended, the slow ones.
    pub slow: u32,
    /// Those that ended and say nothing.
    pub ignored: u32,
    /// Of all that ended; zero where it was not measured.
    pub latency_sum: Nanos,
}

fields!(Tally {
    epoch,
    first_attempts,
    successes,
    failures,
    timeouts,
    throttled,
    rejected,
    slow,
    ignored,
    latency_sum,
});

impl Tally {
    /// What counts for or against the dependency: attempts that ended and say something, those of
    /// them that failed, and those that were slow.
    pub fn counts(&self, policy: &policy::Breaker) -> Counts {
        let counted = |count: u32, counts: bool| if counts { count } else { 0 };
        let failures = self
            .failures
            .saturating_add(self.timeouts)
            .saturating_add(counted(self.throttled, policy.count_throttled))
            .saturating_add(counted(self.rejected, policy.count_rejected));
        let calls = self.successes.saturating_add(failures);
        let slow = self.slow.min(calls);
        let slow_successes = slow.saturating_sub(failures).min(self.successes);
        let failures = match policy.slow_counts_as_failure {
            true => failures.saturating_add(slow_successes),
            false => failures,
        };
        Counts {
            calls,
            failures,
            slow,
        }
    }
}

/// Who reports that a permit is not used, or that nobody will say how its attempt ended. No
/// instance: others need not share the evidence with it.
pub const NOBODY: u64 = u64::MAX;

/// No call is believed to have taken longer.
const LATENCY_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// Takes the report of one granted attempt. `reporter` is the hash of the instance that made
/// it, as in [`Ask::caller`](crate::Ask::caller); `permit` is one that this service gave out for
/// this dependency, in this run.
pub fn report(
    policy: &Policy,
    record: &mut Record,
    permit: &Permit,
    outcome: &Outcome,
    reporter: u64,
    context: &Context,
) -> Reported {
    record.advance(policy, context);
    take_report(policy, record, permit, outcome, reporter, context.now)
}

/// As [`report`], on a record that has been advanced to `now`.
pub(crate) fn take_report(
    policy: &Policy,
    record: &mut Record,
    permit: &Permit,
    outcome: &Outcome,
    reporter: u64,
    now: Time,
) -> Reported {
    if now >= permit.expires {
        return Reported::Expired;
    }
    match record.ticket(permit.serial) {
        Ticket::Unknown => return Reported::Unknown,
        Ticket::Reported | Ticket::Followed => return Reported::Duplicate,
        Ticket::Unreported => {}
    }
    match outcome.kind {
        OutcomeKind::Success => record.settle_ticket(permit),
        OutcomeKind::Failure
        | OutcomeKind::Timeout
        | OutcomeKind::NotSent
        | OutcomeKind::Throttled
        | OutcomeKind::Rejected
        | OutcomeKind::Ignored
        | OutcomeKind::Cancelled => record.report_ticket(permit),
    }
    record.give_back(permit, now);
    if record.note_report(permit, outcome, reporter, now) {
        // A verdict about the fleet's probe is for when the fleet is known again.
        return Reported::Ok;
    }
    let held_lease = record.breaker.end_lease(permit.serial, now);
    if permit.epoch != record.breaker.epoch {
        return Reported::StaleEpoch;
    }
    record.take_outcome(policy, outcome, reporter, held_lease, now);
    Reported::Ok
}

/// Takes the tally of attempts that one instance made without asking.
pub fn tally(
    policy: &Policy,
    record: &mut Record,
    tally: &Tally,
    reporter: u64,
    context: &Context,
) -> Reported {
    record.advance(policy, context);
    let now = context.now;
    record.deposit(&policy.budget, tally.first_attempts, now);
    if tally.epoch != record.breaker.epoch {
        return Reported::StaleEpoch;
    }
    record.note_tally(tally, reporter, now);
    record.gather(reporter, tally);
    take_tally(policy, record, tally, reporter, now);
    Reported::Ok
}

/// Takes what ended, whoever it was told.
pub(crate) fn take_tally(
    policy: &Policy,
    record: &mut Record,
    tally: &Tally,
    reporter: u64,
    now: Time,
) {
    let counts = tally.counts(&policy.breaker);
    let hanging = tally.timeouts.saturating_add(tally.slow);
    let ended = Ended {
        calls: counts.calls,
        failed: counts.failures,
        hanging: hanging.min(counts.failures),
    };
    record.breaker.note_second(&policy.breaker, ended, now);
    record.note_ended(counts, None, now);
    // How long a failure takes says nothing about a success.
    if let Some(mean) = mean_latency(tally).filter(|_| counts.failures == 0) {
        record.note_mean_latency(mean, tally.successes);
    }
    if counts.calls > 0 {
        record.breaker.note_reporter(reporter, now);
    }
    let heard = Heard {
        reporter: Some(reporter),
        counts,
        at: now,
    };
    record.count(policy, &heard, now);
}

/// `None`: nothing ended, or nothing was measured.
fn mean_latency(tally: &Tally) -> Option<Nanos> {
    let ended = [
        tally.successes,
        tally.failures,
        tally.timeouts,
        tally.throttled,
        tally.rejected,
        tally.ignored,
    ];
    let ended: u64 = ended.into_iter().map(u64::from).sum();
    let mean = Nanos(tally.latency_sum.0.checked_div(ended)?);
    (!mean.is_zero()).then(|| mean.min(LATENCY_MAX))
}
