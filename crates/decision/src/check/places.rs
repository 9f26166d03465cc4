//! Which checks are out, so that no more than `max_concurrent` run at once.
//!
//! A check holds its place from its start for `timeout`, or until its checker asks again.
//! All places are of one length, so c of them fit at every instant exactly where no c + 1
//! starts lie within one length.

use std::collections::{BTreeSet, VecDeque};

use crate::{Nanos, Time, bytes::fields};

/// Checks that are out or will be, by their start.
#[derive(Clone, Debug, Default)]
pub struct Places {
    starts: BTreeSet<(Time, u64)>,
}

fields!(Places { starts });

impl Places {
    /// The first start at or after `wanted` at which fewer than `most` others are out.
    pub fn first_free(&self, wanted: Time, length: Nanos, most: u32) -> Time {
        let most = most.max(1) as usize;
        let mut at = wanted;
        let mut row = VecDeque::new();
        let from = Time(wanted.0.saturating_sub(length.0));
        for (start, _) in self.starts.range((from, 0)..) {
            if *start >= at + length {
                break;
            }
            row.push_back(*start);
            if row.len() > most {
                row.pop_front();
            }
            let (Some(first), Some(last)) = (row.front(), row.back()) else {
                continue;
            };
            let full = row.len() == most && *last < *first + length;
            if full && *last < at + length && at < *first + length {
                at = *first + length;
            }
        }
        at
    }

    pub fn take(&mut self, start: Time, checker: u64) {
        self.starts.insert((start, checker));
    }

    pub fn give_back(&mut self, start: Time, checker: u64) {
        self.starts.remove(&(start, checker));
    }

    /// Drops the checks whose time has ended.
    pub fn end(&mut self, length: Nanos, now: Time) {
        while self
            .starts
            .first()
            .is_some_and(|(start, _)| *start + length <= now)
        {
            self.starts.pop_first();
        }
    }

    /// Checks that are out at `now`.
    pub fn out(&self, now: Time) -> usize {
        self.starts.range(..=(now, u64::MAX)).count()
    }
}
