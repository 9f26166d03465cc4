//! For `applies_to: auto`: whether nearly everything failed within one second, and by
//! hanging. Whole seconds are judged, when they are over; a partial one could be its first
//! five calls.

use super::{Breaker, Verdict};
use crate::{
    Time,
    bytes::fields,
    permit::{Outcome, OutcomeKind},
    policy,
};

/// For `applies_to: auto`: how the outcomes of one second ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastSecond {
    second: u32,
    ended: u32,
    failed: u32,
    hanging: u32,
    /// Nearly everything failed by hanging: first attempts are refused too.
    refuses_all: bool,
}

fields!(LastSecond {
    second,
    ended,
    failed,
    hanging,
    refuses_all
});

/// How attempts ended, for `applies_to: auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub calls: u32,
    pub failed: u32,
    /// Of those that failed: by running out of time, or slowly.
    pub hanging: u32,
}

impl Ended {
    /// One attempt; nothing where its outcome is in neither part of the fraction.
    pub fn one(policy: &policy::Breaker, outcome: &Outcome) -> Self {
        match Breaker::verdict(policy, outcome) {
            Verdict::Nothing => Self::default(),
            Verdict::Counted(call) => {
                let hangs = call.failed && (call.slow || outcome.kind == OutcomeKind::Timeout);
                Self {
                    calls: 1,
                    failed: u32::from(call.failed),
                    hanging: u32::from(hangs),
                }
            }
        }
    }
}

impl LastSecond {
    pub(super) fn refuses_all(&self) -> bool {
        self.refuses_all
    }

    /// Judges the second that was counted, if it is over: at least 90 % failed, and half
    /// of those by hanging. Fewer than five outcomes say nothing.
    pub(super) fn turn_to(&mut self, now: Time) {
        let second = (now.0 / 1_000_000_000) as u32;
        if second <= self.second {
            return;
        }
        let nearly_all = u64::from(self.failed) * 10 >= u64::from(self.ended) * 9;
        let half_hang = u64::from(self.hanging) * 2 >= u64::from(self.failed);
        let refuses_all = match self.ended {
            0..5 => self.refuses_all,
            _ => nearly_all && half_hang,
        };
        *self = Self {
            second,
            refuses_all,
            ..Self::default()
        };
    }

    pub(super) fn note(&mut self, ended: Ended) {
        self.ended = self.ended.saturating_add(ended.calls);
        self.failed = self.failed.saturating_add(ended.failed);
        self.hanging = self.hanging.saturating_add(ended.hanging);
    }
}
