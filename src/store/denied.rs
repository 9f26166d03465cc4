//! Denials of one dependency, by reason. Not in its record: each replica counts its own, and
//! nothing is decided by them.

use std::cmp::Reverse;

use holdoff_decision::DenialReason;

use crate::candidate::REASONS;

/// How many of each; a count that is full stays so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denied([u32; REASONS.len()]);

impl Denied {
    pub fn add(&mut self, reason: DenialReason) {
        if let Some(count) = self.0.get_mut(reason as usize) {
            *count = count.saturating_add(1);
        }
    }

    /// Those that there were, the most frequent first.
    pub fn counts(&self) -> Vec<(DenialReason, u32)> {
        let all = REASONS.iter().copied().zip(self.0);
        let mut counts: Vec<_> = all.filter(|(_, count)| *count > 0).collect();
        counts.sort_by_key(|(_, count)| Reverse(*count));
        counts
    }
}
