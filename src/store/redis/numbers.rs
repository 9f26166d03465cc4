//! The numbers of reports on the strict path: noted in the store before a report is taken, and
//! taken back where it was not, so that one that is sent again is neither lost nor counted twice.
//!
//! A store that did not take the report may not take that word either. So the number is also
//! remembered here until the store has it: whoever sends the report to this replica again is heard.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdoff_decision::Time;

use super::{Act, Outcome, SEQUENCE_KEPT, Shared, StoreError, TRIES, Version, millis};
use crate::store::sequences::Seen;

/// Numbers that wait to be taken back; the others are lost to those who send them again.
const UNTAKEN_MAX: usize = 4_096;
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// A minute: whoever has not sent its report again by then has given up.
const AGAIN_MAX: u32 = 120;

/// Instance and number.
type Number = (u64, u64);

/// Numbers that the store has, or may have, of reports that were not taken.
#[derive(Debug, Default)]
pub struct Untaken(Mutex<HashSet<Number>>);

impl Untaken {
    fn locked(&self) -> MutexGuard<'_, HashSet<Number>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Notes a number in the store. False: it was noted before, and its report was taken.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn note_number(
        self: &Arc<Self>,
        (instance, sequence): Number,
        now: Time,
    ) -> Result<bool, StoreError> {
        let place = self.keys.sequence(instance);
        let was_untaken = self.untaken.locked().remove(&(instance, sequence));
        // Most instances have sent a report before, so what they have is asked for first.
        let mut expected: Version = Some("?".into());
        let mut act = Act::Look;
        for _ in 0..TRIES {
            let reply = self.ask(&place, &expected, &act, 0).await?;
            let (version, seen) = match reply.outcome {
                Outcome::Done(_) => return Ok(true),
                Outcome::Other { version, bytes } => (Some(version), Seen::of_bytes(&bytes)),
                Outcome::Absent { .. } => (None, None),
            };
            let seen = match seen {
                Some(mut seen) => match seen.note(sequence) || was_untaken {
                    // Of another version from now on, so that nobody takes it back any more.
                    true => seen,
                    false => return Ok(false),
                },
                None => Seen::first(sequence, now),
            };
            expected = version;
            act = Act::Put {
                bytes: seen.to_bytes(),
                kept_for_ms: millis(SEQUENCE_KEPT),
            };
        }
        let lost = format!("others were faster {TRIES} times");
        Err(StoreError::Unavailable(lost))
    }

    /// The report of this number was not taken.
    pub(super) fn take_back(self: &Arc<Self>, number: Number) {
        let is_new = {
            let mut untaken = self.untaken.locked();
            untaken.len() < UNTAKEN_MAX && untaken.insert(number)
        };
        if is_new {
            let shared = Arc::clone(self);
            self.home.spawn(async move {
                for _ in 0..AGAIN_MAX {
                    if shared.forget_number(number).await.is_ok() {
                        break;
                    }
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                shared.untaken.locked().remove(&number);
            });
        }
    }

    async fn forget_number(&self, number: Number) -> Result<(), StoreError> {
        let (instance, sequence) = number;
        let place = self.keys.sequence(instance);
        let mut expected: Version = Some("?".into());
        let mut act = Act::Look;
        for _ in 0..TRIES {
            let reply = self.ask(&place, &expected, &act, 0).await?;
            let Outcome::Other { version, bytes } = reply.outcome else {
                return Ok(());
            };
            let Some(mut seen) = Seen::of_bytes(&bytes) else {
                return Ok(());
            };
            // It may have been sent again meanwhile.
            if !self.untaken.locked().contains(&number) || !seen.forget(sequence) {
                return Ok(());
            }
            expected = Some(version);
            act = Act::Put {
                bytes: seen.to_bytes(),
                kept_for_ms: millis(SEQUENCE_KEPT),
            };
        }
        let lost = format!("others were faster {TRIES} times");
        Err(StoreError::Unavailable(lost))
    }
}
