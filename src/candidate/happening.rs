//! One thing that happened to a dependency under its live policy: what was asked or told, and
//! what the live policy made of it.
//!
//! It is all that a judge needs, and all that a recording keeps: the clock and the draw stand
//! beside it in the [`Context`]. The live answer is carried rather than worked out again, so a
//! judge is right about what the fleet was told even where it began later than the fleet.

use holdoff_decision::{
    Ask, Context, Denial, Grant, Outcome, Permit, Policy, Record, Reported, Tally,
    record::Override,
    standing::{FirstAttempts, standing_of},
};

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    Asked {
        /// `service` is always set here, whether the live policy looks at it or not.
        ask: Ask,
        verdict: Result<Grant, Denial>,
        previous: Option<Reported>,
        before: Before,
    },
    Reported {
        permit: Permit,
        outcome: Outcome,
        reporter: u64,
        result: Reported,
    },
    Tallied {
        tally: Tally,
        reporter: u64,
        result: Reported,
        before: Before,
    },
    /// An operator forced the breaker.
    Forced(Override),
    /// An operator ended an override.
    Released,
    Reset,
    HoldCleared,
    /// Time alone was taken into the record.
    Advanced,
}

/// The live record just before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Clients that held the pushed state made first attempts without asking.
    pub went: bool,
    /// Permits with a lower serial had been given.
    pub next_serial: u64,
}

impl Before {
    pub fn of(policy: &Policy, record: &Record, caller: u64, context: &Context) -> Self {
        let standing = standing_of(policy, record, caller, context);
        Self {
            went: standing.first_attempts == FirstAttempts::Go,
            next_serial: record.tickets.next_serial(),
        }
    }
}
