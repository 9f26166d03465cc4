//! What is asked, as the rules read it: the permits that were handed back are read here.

use holdoff_decision::{MadeUnder, Nanos, Permit, PermitKind, Previous, Question, Time};

use super::{Coordinator, Made, Refusal, Subject};
use crate::{
    permit::{DependencyId, Read},
    store::Store,
};

impl<S: Store> Coordinator<S> {
    pub(super) fn question(
        &self,
        id: DependencyId,
        subject: &Subject<'_>,
    ) -> Result<Question, Refusal> {
        Ok(match *subject {
            Subject::First => Question::First,
            Subject::Hedge { attempt } => Question::Hedge { attempt },
            Subject::Retry {
                attempt,
                made,
                outcome,
            } => {
                let made_under = match made {
                    Made::Epoch(epoch) => MadeUnder::Epoch(epoch),
                    Made::Nothing => MadeUnder::Unknown,
                    Made::Permit(bytes) => match self.read_own(id, bytes, "previous.permit")? {
                        Read::Permit(_, permit) => MadeUnder::Permit(permit),
                        Read::EarlierRun(_, permit) => MadeUnder::EarlierRun(permit),
                        Read::Unknown | Read::Malformed => MadeUnder::Unknown,
                    },
                };
                Question::Retry {
                    attempt,
                    previous: Previous {
                        made_under,
                        outcome,
                    },
                }
            }
            Subject::Confirm(bytes) => match self.read_own(id, bytes, "confirm")? {
                Read::Permit(_, permit) => Question::Confirm(permit),
                Read::EarlierRun(..) | Read::Unknown | Read::Malformed => {
                    Question::Confirm(void_permit())
                }
            },
        })
    }

    /// Reads a permit that must be of this dependency.
    fn read_own(&self, id: DependencyId, bytes: &[u8], field: &str) -> Result<Read, Refusal> {
        let read = self.permits.read(bytes);
        match read {
            Read::Malformed => Err(Refusal::invalid(
                field,
                format!(
                    "{} bytes that are not a permit; hand back what a grant carried",
                    bytes.len()
                ),
            )),
            Read::Permit(other, _) | Read::EarlierRun(other, _) if other != id => {
                Err(Refusal::invalid(field, "a permit of another dependency"))
            }
            Read::Permit(..) | Read::EarlierRun(..) | Read::Unknown => Ok(read),
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
