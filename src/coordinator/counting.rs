//! What is counted of answers and changes.

use holdoff_decision::{
    Answer, Ask, PermitKind, Question, State, breaker::Cause, evidence::News, policy::Mode,
    record::Change,
};

use super::Coordinator;
use crate::{
    store::{Slot, Store},
    telemetry::{Counter, Granted, Timed, TripCause},
};

impl<S: Store> Coordinator<S> {
    pub(super) fn count_answer(&self, answer: &Answer, ask: &Ask) {
        self.telemetry.add(match &answer.verdict {
            Err(denial) => Counter::Denied(denial.reason),
            Ok(grant) => Counter::Granted(match ask.question {
                _ if grant.probe => Granted::Probe,
                Question::First => Granted::First,
                Question::Retry { .. } => Granted::Retry,
                Question::Hedge { .. } => Granted::Hedge,
                Question::Confirm(_) => Granted::Confirmed,
            }),
        });
        if let Ok(grant) = &answer.verdict {
            if grant.permit.kind == PermitKind::Planned {
                self.telemetry.add(Counter::Promised);
            }
            if !grant.delay.is_zero() {
                self.telemetry.time(Timed::Delay, grant.delay.into());
            }
        }
        if let Some(previous) = answer.previous {
            self.telemetry.add(Counter::Reported(previous));
        }
    }

    /// Called while the record is held. A breaker in shadow mode makes no transition that a
    /// caller sees.
    pub(super) fn count_change(&self, slot: &Slot, change: &Change) {
        let (from, to, cause) = match change {
            Change::Held(_) => return self.telemetry.add(Counter::Held),
            Change::Caller(News::Refused { .. }) => {
                return self.telemetry.add(Counter::CallerFault);
            }
            Change::Caller(News::Recovered { .. }) => return,
            Change::Transition {
                from, to, cause, ..
            } => (*from, *to, cause),
        };
        // Readers see half-open as soon as the open period is over; what the first probe ends is
        // still that period.
        let from = match cause {
            Cause::FirstProbe => State::Open,
            _ => from,
        };
        let forced = |state| matches!(state, State::ForcedOpen | State::ForcedClosed);
        let shadow = slot.policy.breaker.mode == Mode::Shadow;
        let trip = TripCause::of(cause);
        if shadow && !forced(from) && !forced(to) {
            if to == State::Open {
                self.telemetry.add(Counter::ShadowTrip);
            }
            return;
        }
        self.telemetry.add(Counter::Transition { from, to });
        if let Some(trip) = trip {
            self.telemetry.add(Counter::Trip(trip));
        }
    }
}
