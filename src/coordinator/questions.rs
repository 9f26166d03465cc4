//! What is asked, as the rules read it: the permits that were handed back are read here.

use holdoff_decision::{MadeUnder, Nanos, Permit, PermitKind, Previous, Question, Time};

use super::{Coordinator, Made, Subject};
use crate::{
    permit::{DependencyId, Read},
    store::Store,
};

impl<S: Store> Coordinator<S> {
    pub(super) fn question(&self, id: DependencyId, subject: &Subject<'_>) -> Question {
        match *subject {
            Subject::First => Question::First,
            Subject::Hedge { attempt } => Question::Hedge { attempt },
            Subject::Retry {
                attempt,
                made,
                outcome,
            } => Question::Retry {
                attempt,
                previous: Previous {
                    made_under: self.made_under(id, made),
                    outcome,
                },
            },
            Subject::Confirm(bytes) => match self.read_own(id, bytes) {
                Read::Permit(_, permit) => Question::Confirm(permit),
                Read::EarlierRun(..) | Read::Unknown | Read::Malformed => {
                    Question::Confirm(void_permit())
                }
            },
        }
    }

    fn made_under(&self, id: DependencyId, made: Made<'_>) -> MadeUnder {
        match made {
            Made::Epoch(epoch) => {
                self.predecessor.note_epoch(epoch);
                MadeUnder::Epoch(epoch)
            }
            Made::Nothing => MadeUnder::Unknown,
            Made::Permit(bytes) => match self.read_own(id, bytes) {
                Read::Permit(_, permit) => MadeUnder::Permit(permit),
                Read::EarlierRun(_, permit) => MadeUnder::EarlierRun(permit),
                Read::Unknown | Read::Malformed => MadeUnder::Unknown,
            },
        }
    }

    /// Reads a permit. One of another dependency is none here.
    fn read_own(&self, id: DependencyId, bytes: &[u8]) -> Read {
        let read = self.permits.read(bytes);
        self.predecessor.note_permit(&read);
        match read {
            Read::Permit(other, _) | Read::EarlierRun(other, _) if other != id => Read::Unknown,
            Read::Permit(..) | Read::EarlierRun(..) | Read::Unknown | Read::Malformed => read,
        }
    }
}

/// A permit that no record knows: its confirmation is denied as void.
fn void_permit() -> Permit {
    Permit {
        epoch: 0,
        serial: u64::MAX,
        issued: Time::ORIGIN,
        delay: Nanos::ZERO,
        expires: Time::ORIGIN,
        retry: 0,
        kind: PermitKind::Call,
    }
}
