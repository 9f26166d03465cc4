//! What the evidence says, for readers.

use super::Breaker;
use crate::{Time, evidence::RECENT, window::Counts};

impl Breaker {
    /// The calls in the window; none under the adaptive detector.
    pub fn counts(&self, now: Time) -> Counts {
        self.window()
            .map_or_else(Counts::default, |window| window.counts(now))
    }

    /// How much of what a trip needs the adaptive detector has seen; 0 under a window.
    pub fn suspicion(&self, now: Time) -> f32 {
        // Under a window it is as new.
        self.detector.suspicion(now)
    }

    /// Caller instances that ended an attempt lately, or since the evidence began: never more
    /// than there are.
    pub fn active(&self, now: Time) -> u32 {
        match self.reporters() {
            Some(reporters) => reporters.active(&self.recent, now),
            None => self.recent.count(RECENT, now),
        }
    }
}
