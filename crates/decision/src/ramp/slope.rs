//! How the curve climbs, and where it would be later.

use super::{Ramp, length};
use crate::{Nanos, Time, policy};

/// From this part of what the dependency was seen to do, the curve climbs by thirty-fifths.
const NEAR_CEILING: f64 = 0.95;
/// Of X. By fortieths it falls behind a dependency that warms up within twenty seconds; by
/// thirtieths a fleet of a hundred has a second of 1.4 capacities.
const NEAR_PARTS: f64 = 35.0;
/// Steps that a place in line looks ahead.
const STEPS_AHEAD: u32 = 64;

/// The curve as it would climb from here on, to twice X at most.
pub(super) struct Ahead {
    rate: f64,
    limit: f64,
    slope: Slope,
    step_ends: Time,
    length: Nanos,
    steps_left: u32,
}

impl Ahead {
    /// For places, which are promises: not above what the dependency is known to do.
    pub fn of(ramp: &Ramp, policy: &policy::Ramp) -> Self {
        let mut ahead = Self::hoped(ramp, policy);
        ahead.limit = ahead.limit.min(ramp.ceiling).max(ramp.rate);
        ahead
    }

    /// For times to ask again. A dependency that comes back cold does more each second: who
    /// was told a time too late leaves places empty, who comes too early is told another.
    pub fn hoped(ramp: &Ramp, policy: &policy::Ramp) -> Self {
        let length = length(policy);
        Self {
            rate: ramp.rate,
            limit: (2.0 * ramp.target).max(ramp.rate),
            slope: ramp.slope(),
            step_ends: ramp.step_began + length,
            length,
            steps_left: STEPS_AHEAD,
        }
    }

    /// The rate at `at`, which never lies before that of the last call.
    pub fn rate(&mut self, at: Time) -> f64 {
        while at >= self.step_ends && self.steps_left > 0 {
            self.rate = self.slope.climbed(self.rate).min(self.limit);
            self.step_ends = self.step_ends + self.length;
            self.steps_left -= 1;
        }
        self.rate
    }
}

/// How steeply the curve climbs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    pub doubles_to: f64,
    pub target: f64,
    pub ceiling: f64,
}

impl Slope {
    pub fn climbed(self, rate: f64) -> f64 {
        if rate < self.doubles_to {
            return (2.0 * rate).min(self.doubles_to);
        }
        let tenth = (self.target / 10.0).min(rate);
        match rate < NEAR_CEILING * self.ceiling {
            true => rate + tenth,
            false => rate + tenth.min(self.target / NEAR_PARTS),
        }
    }
}
