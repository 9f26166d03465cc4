//! What operators do to a record, and how it outlives a restart.

use crate::{
    Nanos, Record, Time,
    breaker::{Cause, Past, Phase},
    record::{Override, OverrideKind, State},
    throughput::{Health, Throughput},
};

/// What a restart must not forget of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub phase: Phase,
    pub epoch: u64,
    /// Trips in a row.
    pub level: u32,
    pub trips: u32,
    /// Of the open period.
    pub left: Nanos,
    /// What the dependency did in health: without it the recovery would not know what to climb
    /// back to, and a calendar under `auto` would begin at its least. `None`: not known.
    pub usual: Option<Health>,
}

/// Forces the breaker, whatever its state; the former override ends.
pub fn set_override(record: &mut Record, order: Override, now: Time) {
    record.end_expired_order(now);
    let from = current(record, now);
    record.put_order(order);
    record.breaker.forget_level();
    record.breaker.close(Cause::Override, now);
    record.note_transition(from, now);
}

/// Ends an override: closed, with no evidence. False: there was none.
pub fn clear_override(record: &mut Record, now: Time) -> bool {
    record.end_expired_order(now);
    let from = current(record, now);
    if record.take_order().is_none() {
        return false;
    }
    record.breaker.forget_level();
    record.breaker.close(Cause::OverrideCleared, now);
    record.note_transition(from, now);
    true
}

/// Forgets what was learned: closed, a new epoch, a first open period again. An override
/// stays; leases that are out still count.
pub fn reset(record: &mut Record, now: Time) {
    record.end_expired_order(now);
    let from = current(record, now);
    record.breaker.forget_level();
    record.breaker.close(Cause::Reset, now);
    record.note_transition(from, now);
}

/// Ends a hold. False: there was none.
pub fn clear_hold(record: &mut Record, now: Time) -> bool {
    let held = now < record.held_until();
    record.hold_until(Time::ORIGIN);
    held
}

/// What is to be remembered of the breaker; an override is remembered on its own.
pub fn checkpoint(record: &Record, now: Time) -> Checkpoint {
    let breaker = &record.breaker;
    Checkpoint {
        phase: breaker.phase,
        epoch: breaker.epoch,
        level: breaker.past().level,
        trips: breaker.past().trips,
        left: match breaker.phase {
            Phase::Open => now.until(breaker.past().open_until),
            Phase::Closed | Phase::HalfOpen => Nanos::ZERO,
        },
        usual: record.throughput.health(),
    }
}

/// The record that a checkpoint was made of, after a restart. Its leases are not known, so
/// half-open is open with nothing left: the next probe opens a new epoch.
pub fn restore(checkpoint: &Checkpoint, now: Time) -> Record {
    let mut record = Record::new(checkpoint.epoch, now);
    let breaker = &mut record.breaker;
    breaker.phase = match checkpoint.phase {
        Phase::Closed => Phase::Closed,
        Phase::Open | Phase::HalfOpen => Phase::Open,
    };
    *breaker.past_mut() = Past {
        cause: Cause::Restored,
        open_until: now + checkpoint.left,
        level: checkpoint.level,
        probe_successes: 0,
        trips: checkpoint.trips,
    };
    if let Some(usual) = &checkpoint.usual {
        record.throughput = Throughput::of(usual, now);
    }
    record
}

fn current(record: &Record, now: Time) -> State {
    match record.order_at(now).map(|order| order.kind) {
        Some(OverrideKind::ForceOpen) => State::ForcedOpen,
        Some(OverrideKind::ForceClosed) => State::ForcedClosed,
        None => record.inner_state(now),
    }
}
