//! Whether there was a run before this one, whose probes may still be out.
//!
//! A data directory knows, and a shared store that has the leases makes the question idle. Without
//! either, or after it was lost, only callers can show it: by a permit that this run did not make,
//! or an epoch that it never gave. Until then a service takes itself for the first one, which has
//! nothing to wait for; callers that were there before the start show themselves with their first
//! report or retry, long before a breaker of this run has opened and its open period has ended.

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicBool, Ordering},
};

use holdoff_decision::{Restart, Time};

use crate::{durable::EPOCHS_OF_A_RUN, permit::Read};

#[derive(Debug)]
pub(super) struct Predecessor {
    /// When this run began.
    started: Time,
    evidence: Evidence,
}

#[derive(Debug)]
pub(super) enum Evidence {
    /// All that it had promised was read back.
    NotNeeded,
    /// What was kept is of an earlier run.
    OnRecord,
    /// A shared store that is empty may be new, or may have been emptied.
    Presumed,
    /// Nothing was kept.
    OfCallers {
        /// All that this run gives.
        epochs: RangeInclusive<u64>,
        is_shown: AtomicBool,
    },
}

impl Evidence {
    /// The epochs of this run are above `epoch`.
    pub fn of_callers(epoch: u64) -> Self {
        Self::OfCallers {
            epochs: epoch + 1..=epoch.saturating_add(EPOCHS_OF_A_RUN),
            is_shown: AtomicBool::new(false),
        }
    }
}

impl Predecessor {
    pub fn new(started: Time, evidence: Evidence) -> Self {
        Self { started, evidence }
    }

    pub fn started(&self) -> Time {
        self.started
    }

    /// As the rules are told it.
    pub fn restarted(&self) -> Option<Restart> {
        let is_on_record = match &self.evidence {
            Evidence::NotNeeded => return None,
            Evidence::OnRecord => true,
            Evidence::Presumed => false,
            Evidence::OfCallers { is_shown, .. } if is_shown.load(Ordering::Relaxed) => false,
            Evidence::OfCallers { .. } => return None,
        };
        Some(Restart {
            at: self.started,
            is_on_record,
        })
    }

    pub fn note_permit(&self, read: &Read) {
        match (read, &self.evidence) {
            (Read::EarlierRun(..) | Read::Unknown, Evidence::OfCallers { is_shown, .. }) => {
                show(is_shown);
            }
            (Read::Permit(..) | Read::Malformed, _)
            | (_, Evidence::NotNeeded | Evidence::OnRecord | Evidence::Presumed) => {}
        }
    }

    /// 0: nothing was pushed to its caller.
    pub fn note_epoch(&self, epoch: u64) {
        match &self.evidence {
            Evidence::OfCallers { epochs, is_shown } if epoch != 0 && !epochs.contains(&epoch) => {
                show(is_shown);
            }
            Evidence::OfCallers { .. }
            | Evidence::NotNeeded
            | Evidence::OnRecord
            | Evidence::Presumed => {}
        }
    }
}

/// Written once: it is read with every question.
fn show(is_shown: &AtomicBool) {
    if !is_shown.load(Ordering::Relaxed) {
        is_shown.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use holdoff_decision::Nanos;

    use super::*;
    use crate::permit::{DependencyId, PermitCodec};

    const START: Time = Time(1_700_000_000_000_000_000);

    fn nothing_kept() -> Predecessor {
        Predecessor::new(START, Evidence::of_callers(50_000))
    }

    #[test]
    fn callers_show_an_earlier_run_by_what_this_one_never_gave() {
        for epoch in [1, 50_000, 60_001, u64::MAX] {
            let run = nothing_kept();
            assert_eq!(run.restarted(), None);
            run.note_epoch(epoch);
            let shown = Restart {
                at: START,
                is_on_record: false,
            };
            assert_eq!(run.restarted(), Some(shown), "{epoch}");
        }
        let permit = holdoff_decision::Permit {
            epoch: 50_001,
            serial: 1,
            issued: START,
            delay: Nanos::ZERO,
            expires: START,
            retry: 0,
            kind: holdoff_decision::PermitKind::Call,
        };
        let (before, other) = (PermitCodec::new([7; 16], 1), PermitCodec::new([8; 16], 1));
        let now = PermitCodec::new([7; 16], 2);
        for codec in [&before, &other] {
            let run = nothing_kept();
            run.note_permit(&now.read(&codec.write(DependencyId(3), &permit)));
            assert!(run.restarted().is_some());
        }
        let run = nothing_kept();
        run.note_permit(&now.read(&now.write(DependencyId(3), &permit)));
        run.note_permit(&now.read(b"no permit"));
        for epoch in [0, 50_001, 60_000] {
            run.note_epoch(epoch);
        }
        assert_eq!(run.restarted(), None);
    }

    #[test]
    fn what_is_on_record_needs_nobody_and_what_was_read_back_changes_for_nobody() {
        let kept = Predecessor::new(START, Evidence::OnRecord);
        assert_eq!(kept.restarted(), Some(Restart::after_another(START)));
        let read_back = Predecessor::new(START, Evidence::NotNeeded);
        read_back.note_epoch(1);
        assert_eq!(read_back.restarted(), None);
        let presumed = Predecessor::new(START, Evidence::Presumed);
        assert!(
            presumed
                .restarted()
                .is_some_and(|start| !start.is_on_record)
        );
    }
}
