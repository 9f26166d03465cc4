//! A policy file that is checked, and not put into force. On a thread of its own, since it runs the
//! rules over minutes of stated traffic; and no longer than somebody waits for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Coordinator, Refusal};
use crate::{
    policy::{Finding, PolicySet, Traffic},
    store::Store,
};

/// A policy is checked within so long, or not by the service.
const CHECKED_WITHIN: Duration = Duration::from_secs(10);

impl<S: Store> Coordinator<S> {
    /// Checks a whole policy file: what would be refused, or else what cannot work.
    ///
    /// # Errors
    /// Traffic of a name that the document has no policy for, or it took too long.
    pub async fn check_policy(
        &self,
        document: String,
        traffic: Traffic,
    ) -> Result<Vec<Finding>, Refusal> {
        let source = crate::policy::Source {
            name: "document".into(),
            text: document,
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let _ends = SetOnDrop(Arc::clone(&is_over));
        // On a thread of its own: it runs the rules over minutes of stated traffic.
        let checked = tokio::task::spawn_blocking(move || {
            let set = match PolicySet::load(std::slice::from_ref(&source), &[]) {
                Ok(set) => set,
                Err(findings) => return Ok(findings),
            };
            if let Some(unmatched) = traffic.unmatched(&set).into_iter().next() {
                return Err(Refusal::invalid(unmatched.field, unmatched.message));
            }
            let goes_on = || !is_over.load(Ordering::Relaxed);
            crate::policy::check_while(&set, &traffic, goes_on)
                .ok_or(Refusal::CheckTooSlow(CHECKED_WITHIN))
        });
        match tokio::time::timeout(CHECKED_WITHIN, checked).await {
            Ok(checked) => checked.unwrap_or_else(|failed| Ok(not_checked(failed))),
            Err(_) => Err(Refusal::CheckTooSlow(CHECKED_WITHIN)),
        }
    }
}

/// Nobody waits any longer, whoever gave up: the work ends at its next step.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn not_checked(failed: tokio::task::JoinError) -> Vec<Finding> {
    let message = format!("not checked: {failed}");
    vec![Finding::of_file(crate::policy::API, message)]
}
