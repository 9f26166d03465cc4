//! What happens to the dependency, and when: a script that repeats itself. Pure; no clock is read
//! and nothing is drawn here.

use std::time::Duration;

/// How the dependency is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Every call succeeds.
    Well,
    /// Slow, and one call in twenty fails: too little for a trip.
    Brownout,
    /// No call is answered.
    Down,
    /// Every call is told to come back later.
    Throttling,
}

/// From when on, in seconds of a lap.
const SCRIPT: [(u64, Phase); 6] = [
    (0, Phase::Well),
    (6, Phase::Brownout),
    (10, Phase::Down),
    (17, Phase::Well),
    (32, Phase::Throttling),
    (34, Phase::Well),
];

/// After so long the script begins anew.
pub const LAP: Duration = Duration::from_secs(45);
/// What a throttled call is told.
pub const RETRY_AFTER: Duration = Duration::from_secs(4);
/// The share of calls that fail in a brownout.
pub const BROWNOUT_SHARE: f64 = 0.05;

impl Phase {
    /// How the dependency is, so long after the start.
    pub fn at(since: Duration) -> Self {
        let in_lap = since.as_secs() % LAP.as_secs();
        let begun = SCRIPT.iter().rfind(|(from, _)| *from <= in_lap);
        begun.map_or(Self::Well, |(_, phase)| *phase)
    }

    /// For the header.
    pub fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Brownout => "slow, 5 % of calls fail",
            Self::Down => "down, no call is answered",
            Self::Throttling => "throttling, 429 Retry-After: 4",
        }
    }

    /// That it begins, for somebody who sees it for the first time.
    pub fn begins_after(self, before: Option<Self>) -> &'static str {
        match self {
            Self::Well if before == Some(Self::Down) => {
                "The dependency is well again, and nobody knows it: the next probe will tell."
            }
            Self::Well if before == Some(Self::Throttling) => {
                "The dependency is well again; the wait that it asked for goes on."
            }
            Self::Well => {
                "The dependency is well: calls go without a question, since clients are pushed the state."
            }
            Self::Brownout => {
                "The dependency gets slow and fails 5 % of calls: retries mend them, the breaker stays closed."
            }
            Self::Down => "The dependency stops answering: calls time out.",
            Self::Throttling => "The dependency answers 429 with Retry-After: 4.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_has_every_phase_and_repeats() {
        let phases: Vec<Phase> = (0..LAP.as_secs())
            .map(|second| Phase::at(Duration::from_secs(second)))
            .collect();
        for phase in [Phase::Well, Phase::Brownout, Phase::Down, Phase::Throttling] {
            assert!(phases.contains(&phase), "{phase:?}");
        }
        assert_eq!(phases[0], Phase::Well);
        assert_eq!(phases.last(), Some(&Phase::Well));
        for (second, phase) in (0..).zip(&phases) {
            let later = LAP * 3 + Duration::from_millis(second * 1_000 + 999);
            assert_eq!(Phase::at(later), *phase, "{second} s");
        }
    }
}
