//! Which verdict of the candidate stands behind a permit of the live policy: the join of a
//! call's outcome with what the candidate would have said of that call.
//!
//! A table, and not a bit in the permit: the candidate's own permit is needed too, since its
//! epochs and serials are others than the live ones. Bounded; where it is full the oldest goes,
//! is counted, and its outcome is taken for evidence alone.

use std::collections::BTreeMap;

use holdoff_decision::{DenialReason, Permit, Time};

/// Permits of one dependency. With less than 100 bytes each, 400 KiB at most.
const PENDING_MAX: usize = 4_096;

/// What the candidate said of a call that the live policy let through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Granted(Permit),
    Refused(DenialReason),
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    pub verdict: Verdict,
    /// Its outcome is known.
    pub ended: bool,
    until: Time,
}

/// See the module. By the live serials, which only rise.
#[derive(Clone, Debug, Default)]
pub struct Pending(BTreeMap<u64, Call>);

impl Pending {
    pub fn find(&self, serial: u64) -> Option<Call> {
        self.0.get(&serial).copied()
    }

    /// Notes what the candidate said of the call of a live permit. Returns the call that had to
    /// go for it.
    pub fn note(&mut self, live: &Permit, verdict: Verdict) -> Option<Call> {
        let until = match verdict {
            Verdict::Granted(permit) => live.expires.max(permit.expires),
            Verdict::Refused(_) => live.expires,
        };
        let call = Call {
            verdict,
            ended: false,
            until,
        };
        self.0.insert(live.serial, call);
        let full = self.0.len() > PENDING_MAX;
        full.then(|| self.0.pop_first().map(|(_, call)| call))
            .flatten()
    }

    /// Notes that a call has ended. One that succeeded is of no more use.
    pub fn end(&mut self, serial: u64, succeeded: bool) {
        match succeeded {
            true => drop(self.0.remove(&serial)),
            false => {
                if let Some(call) = self.0.get_mut(&serial) {
                    call.ended = true;
                }
            }
        }
    }

    pub fn end_all(&mut self) {
        for call in self.0.values_mut() {
            call.ended = true;
        }
    }

    pub fn forget(&mut self, serial: u64) {
        self.0.remove(&serial);
    }

    /// Takes out the oldest call, where nothing can come of it any more.
    pub fn expire(&mut self, now: Time) -> Option<Call> {
        let oldest = self.0.first_entry()?;
        (now >= oldest.get().until).then(|| oldest.remove())
    }
}
