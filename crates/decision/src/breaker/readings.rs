//! What the evidence says, for readers.

use super::{Breaker, Evidence};
use crate::{Time, window::Counts};

impl Breaker {
    /// The calls in the window; none under the adaptive detector.
    pub fn counts(&self, now: Time) -> Counts {
        match &self.evidence {
            Evidence::Window(window) => window.counts(now),
            Evidence::Adaptive(_) => Counts::default(),
        }
    }

    /// The share of calls that fail in health, as the adaptive detector has learned it; 0
    /// under a window.
    pub fn usual_failing(&self) -> f32 {
        match &self.evidence {
            Evidence::Adaptive(detector) => detector.baseline(),
            Evidence::Window(_) => 0.0,
        }
    }

    /// How much of what a trip needs the adaptive detector has seen; 0 under a window.
    pub fn suspicion(&self, now: Time) -> f32 {
        match &self.evidence {
            Evidence::Adaptive(detector) => detector.suspicion(now),
            Evidence::Window(_) => 0.0,
        }
    }
}
