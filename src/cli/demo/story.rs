//! What is told of what happens, and which of the six things a newcomer should see have been seen.
//! Pure: events and numbers in, sentences out.

use std::{collections::BTreeSet, time::Duration};

use holdoff_client::proto::{Event, EventKind};

use super::{
    super::{output::Tone, span, words},
    counts::{Counts, No, Spread},
    course::Phase,
};

/// So many places at different times show that a return is spread.
const SPREAD_MIN: usize = 3;
/// Refusals that show how an open breaker answers.
const REFUSALS_MIN: u64 = 5;
/// After a hold its places are looked at for so long.
const RETURN: Duration = Duration::from_secs(4);

/// What there is to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lesson {
    Trip,
    Refusal,
    Probe,
    Ramp,
    Hold,
    Calendar,
}

impl Lesson {
    pub const ALL: [Self; 6] = [
        Self::Trip,
        Self::Refusal,
        Self::Probe,
        Self::Ramp,
        Self::Hold,
        Self::Calendar,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Trip => "trip",
            Self::Refusal => "refusal",
            Self::Probe => "probe",
            Self::Ramp => "ramp",
            Self::Hold => "hold",
            Self::Calendar => "calendar",
        }
    }
}

/// One sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Since the start.
    pub at: Duration,
    pub tone: Tone,
    pub text: String,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Story {
    pub seen: BTreeSet<Lesson>,
    phase: Option<Phase>,
    /// Refusals by the open breaker before the present open period.
    refused_before: Option<u64>,
    /// When the present hold was told.
    held_at: Option<Duration>,
}

impl Story {
    /// What the numbers say at this moment.
    pub fn look(&mut self, at: Duration, phase: Phase, counts: &Counts) -> Vec<Told> {
        let mut told = Vec::new();
        let before = self.phase.replace(phase);
        if before != Some(phase) {
            let tone = match phase {
                Phase::Well => Tone::Good,
                Phase::Brownout | Phase::Throttling => Tone::Watch,
                Phase::Down => Tone::Bad,
            };
            told.push(sentence(at, tone, phase.begins_after(before)));
        }
        told.extend(self.refusals(at, counts));
        told.extend(self.calendar(at, counts));
        told
    }

    /// Once in each open period.
    fn refusals(&mut self, at: Duration, counts: &Counts) -> Option<Told> {
        let before = self.refused_before?;
        let refused = open_refusals(counts).saturating_sub(before);
        if refused < REFUSALS_MIN {
            return None;
        }
        self.refused_before = None;
        self.seen.insert(Lesson::Refusal);
        let text = format!(
            "Fail fast: {refused} calls were refused at once; none of them waited for a timeout."
        );
        Some(sentence(at, Tone::Watch, text))
    }

    /// Once for each hold, when those that waited have their places.
    fn calendar(&mut self, at: Duration, counts: &Counts) -> Option<Told> {
        let held_at = self.held_at?;
        if at < held_at + RETURN {
            return None;
        }
        self.held_at = None;
        let spread = counts.spread(held_at, held_at + 2 * RETURN);
        if spread.attempts < SPREAD_MIN || spread.over.is_zero() {
            return None;
        }
        self.seen.insert(Lesson::Calendar);
        Some(sentence(at, Tone::Good, returned(spread)))
    }

    /// An event of the service. `None`: nothing to tell.
    pub fn event(&mut self, at: Duration, event: &Event, counts: &Counts) -> Option<Told> {
        let detail = &event.detail;
        let (tone, text) = match event.kind() {
            EventKind::Tripped => {
                self.seen.insert(Lesson::Trip);
                self.refused_before = Some(open_refusals(counts));
                (
                    Tone::Bad,
                    format!("TRIP. The breaker opens for the whole fleet ({detail})."),
                )
            }
            EventKind::Probing => {
                self.seen.insert(Lesson::Probe);
                (Tone::Watch, "PROBE. Half-open: one caller of the fleet may try one call; the others go on being refused.".to_owned())
            }
            EventKind::Reopened => (
                Tone::Bad,
                format!("The probe failed ({detail}): open again, for longer."),
            ),
            EventKind::Recovered => (
                Tone::Good,
                format!("RECOVERED ({detail}). Closed; the admitted share climbs from one half."),
            ),
            EventKind::RampEnded => {
                self.seen.insert(Lesson::Ramp);
                (
                    Tone::Good,
                    "RAMP over: the admitted share is whole again.".to_owned(),
                )
            }
            EventKind::Held => {
                // Each caller that is told to wait prolongs the same hold by a little.
                if self.held_at.is_some() {
                    return None;
                }
                self.seen.insert(Lesson::Hold);
                self.held_at = Some(at);
                (
                    Tone::Watch,
                    format!(
                        "HOLD. One caller was told to wait, so the whole fleet waits ({detail})."
                    ),
                )
            }
            EventKind::Started | EventKind::PolicyPut => return None,
            EventKind::Unspecified
            | EventKind::OverrideSet
            | EventKind::OverrideCleared
            | EventKind::OverrideExpired
            | EventKind::Reset
            | EventKind::HoldCleared
            | EventKind::PolicyDeleted
            | EventKind::PoliciesReloaded
            | EventKind::PoliciesRefused
            | EventKind::ShadowTripped
            | EventKind::CallerRefused
            | EventKind::CallerRecovered
            | EventKind::CheckUnhealthy
            | EventKind::CheckHealthy
            | EventKind::CandidatePut
            | EventKind::CandidateDropped
            | EventKind::CandidatePromoted
            | EventKind::CandidateTripped
            | EventKind::StoreAway
            | EventKind::StoreBack => {
                let what = words::event(event.kind);
                (Tone::Neutral, format!("{what}: {detail}"))
            }
        };
        Some(sentence(at, tone, text))
    }

    pub fn is_complete(&self) -> bool {
        Lesson::ALL.iter().all(|lesson| self.seen.contains(lesson))
    }

    /// What is still to be seen, in words.
    pub fn unseen(&self) -> Vec<&'static str> {
        let unseen = Lesson::ALL.into_iter();
        let unseen = unseen.filter(|lesson| !self.seen.contains(lesson));
        unseen.map(Lesson::word).collect()
    }
}

fn open_refusals(counts: &Counts) -> u64 {
    let of = |no| counts.denied.get(&no).copied().unwrap_or(0);
    of(No::BreakerOpen) + of(No::ProbeInProgress)
}

fn returned(spread: Spread) -> String {
    format!(
        "CALENDAR. {} attempts that waited had places of their own over {}, at most {} in 10 ms: no herd.",
        spread.attempts,
        span::human(spread.over),
        spread.most_in_slot
    )
}

fn sentence(at: Duration, tone: Tone, text: impl Into<String>) -> Told {
    Told {
        at,
        tone,
        text: text.into(),
    }
}
