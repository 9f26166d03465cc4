//! What the candidate did otherwise, counted. Of fixed size, but for the newest openings.

use std::collections::VecDeque;

use holdoff_decision::{
    DenialReason, Nanos, OutcomeKind, PermitKind, Question, Time, breaker::Cause,
};

/// Openings that are remembered of one policy; all are counted.
const OPENINGS_KEPT: usize = 20;

/// The difference between the live policy and a candidate, over all that was judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// When the first and the last of it happened; the origin of time: nothing did.
    pub since: Time,
    pub until: Time,
    pub live: Side,
    pub candidate: Side,
    refused: ByReason,
    let_through: ByReason,
    /// Attempts that both granted, and the candidate later or sooner than the live policy.
    pub later: Shift,
    pub sooner: Shift,
    /// Attempts that both refused, for different reasons.
    pub other_reason: u64,
    /// Calls that the candidate would have refused and that were not reported, or not yet, or
    /// whose permit was forgotten here.
    pub forgotten: u64,
}

/// What one policy did, or would have done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// First attempts granted, those made on pushed state among them.
    pub first_attempts: u64,
    pub retries: u64,
    pub first_attempts_refused: u64,
    pub retries_refused: u64,
    /// Calls it let through that were made and ended so.
    pub succeeded: u64,
    pub failed: u64,
    pub openings: Openings,
}

/// Closed to open, and half-open to open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Openings {
    pub opened: u64,
    pub reopened: u64,
    /// The newest of both, oldest first.
    pub newest: VecDeque<Opening>,
}

/// One opening.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    pub at: Time,
    pub cause: Cause,
    /// From half-open.
    pub again: bool,
}

/// Attempts that one policy refused for a reason and the other let through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differing {
    pub first_attempts: u64,
    pub retries: u64,
    /// Of those that were made: how they ended.
    pub succeeded: u64,
    pub failed: u64,
}

/// Attempts, and by how much together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    pub attempts: u64,
    pub together: Nanos,
}

#[derive(Clone, Debug, PartialEq)]
struct ByReason(Box<[Differing; REASONS.len()]>);

/// What an attempt is, for the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    First,
    /// A retry or a hedge.
    Retry,
}

/// How a call ended, for the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Succeeded,
    Failed,
    /// It says nothing about the dependency.
    Neither,
}

impl Default for ByReason {
    fn default() -> Self {
        Self(Box::new([Differing::default(); REASONS.len()]))
    }
}

impl ByReason {
    fn at(&mut self, reason: DenialReason) -> Option<&mut Differing> {
        self.0.get_mut(reason as usize)
    }

    fn shown(&self) -> impl Iterator<Item = (DenialReason, Differing)> {
        let each = REASONS.into_iter().zip(self.0.iter().copied());
        each.filter(|(_, differing)| *differing != Differing::default())
    }

    fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0.iter()) {
            sum.first_attempts += more.first_attempts;
            sum.retries += more.retries;
            sum.succeeded += more.succeeded;
            sum.failed += more.failed;
        }
    }
}

/// In the order of their declaration, which is that of the table.
pub const REASONS: [DenialReason; 19] = [
    DenialReason::ForcedOpen,
    DenialReason::Pushback,
    DenialReason::PushbackTooLong,
    DenialReason::NotRetryable,
    DenialReason::RetriedBelow,
    DenialReason::AttemptsExhausted,
    DenialReason::RetryUnsafe,
    DenialReason::HedgeRefused,
    DenialReason::Held,
    DenialReason::CallerFault,
    DenialReason::BreakerOpen,
    DenialReason::ProbeInProgress,
    DenialReason::Recovering,
    DenialReason::CalendarFull,
    DenialReason::RateLimited,
    DenialReason::Deadline,
    DenialReason::BudgetExhausted,
    DenialReason::Duplicate,
    DenialReason::PermitVoid,
];

impl End {
    pub fn of(kind: OutcomeKind) -> Self {
        match kind {
            OutcomeKind::Success => Self::Succeeded,
            OutcomeKind::Failure
            | OutcomeKind::Timeout
            | OutcomeKind::NotSent
            | OutcomeKind::Throttled => Self::Failed,
            OutcomeKind::Rejected | OutcomeKind::Ignored | OutcomeKind::Cancelled => Self::Neither,
        }
    }
}

impl Side {
    /// Attempts granted and refused.
    pub fn answers(&self) -> u64 {
        self.first_attempts + self.first_attempts_refused + self.retries + self.retries_refused
    }

    pub(super) fn grant(&mut self, class: Class, count: u64) {
        match class {
            Class::First => self.first_attempts += count,
            Class::Retry => self.retries += count,
        }
    }

    pub(super) fn refuse(&mut self, class: Class, count: u64) {
        match class {
            Class::First => self.first_attempts_refused += count,
            Class::Retry => self.retries_refused += count,
        }
    }

    pub(super) fn end(&mut self, end: End, count: u64) {
        match end {
            End::Succeeded => self.succeeded += count,
            End::Failed => self.failed += count,
            End::Neither => {}
        }
    }

    fn add(&mut self, other: &Self) {
        self.first_attempts += other.first_attempts;
        self.retries += other.retries;
        self.first_attempts_refused += other.first_attempts_refused;
        self.retries_refused += other.retries_refused;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.openings.opened += other.openings.opened;
        self.openings.reopened += other.openings.reopened;
    }
}

impl Openings {
    /// Notes a transition where it opens, and says so.
    pub(super) fn note(&mut self, cause: Cause, at: Time) -> Option<Opening> {
        let again = match cause {
            Cause::Suspicion(_) | Cause::Window(_) => false,
            Cause::ProbeFailed(_) | Cause::ProbeSlow(_) => true,
            Cause::New
            | Cause::FirstProbe
            | Cause::ProbesSucceeded(_)
            | Cause::Recovered
            | Cause::Override
            | Cause::OverrideCleared
            | Cause::OverrideExpired
            | Cause::Reset
            | Cause::Restored => return None,
        };
        match again {
            true => self.reopened += 1,
            false => self.opened += 1,
        }
        let opening = Opening { at, cause, again };
        if self.newest.len() >= OPENINGS_KEPT {
            self.newest.pop_front();
        }
        self.newest.push_back(opening.clone());
        Some(opening)
    }
}

impl Numbers {
    /// What the candidate refused and the live policy let through, by the candidate's reason.
    pub fn refused(&self) -> impl Iterator<Item = (DenialReason, Differing)> {
        self.refused.shown()
    }

    /// What the live policy refused and the candidate would have let through, by the live
    /// reason. How such a call would have ended nobody knows: it was never made.
    pub fn let_through(&self) -> impl Iterator<Item = (DenialReason, Differing)> {
        self.let_through.shown()
    }

    /// All that the candidate refused and the live policy let through.
    pub fn refused_in_all(&self) -> Differing {
        sum(self.refused.shown())
    }

    /// All that only the candidate would have let through.
    pub fn let_through_in_all(&self) -> Differing {
        sum(self.let_through.shown())
    }

    /// Answers that the candidate would have given otherwise: another verdict, reason or delay.
    pub fn answered_otherwise(&self) -> u64 {
        self.refused_in_all().attempts()
            + self.let_through_in_all().attempts()
            + self.later.attempts
            + self.sooner.attempts
            + self.other_reason
    }

    /// Whether the candidate did exactly what the live policy did.
    pub fn agree(&self) -> bool {
        self.answered_otherwise() == 0 && self.live == self.candidate
    }

    /// Adds those of another dependency. Openings are counted, not merged: whose they are
    /// would be lost.
    pub fn add(&mut self, other: &Self) {
        if other.since != Time::ORIGIN {
            let first = self.since == Time::ORIGIN || other.since < self.since;
            self.since = if first { other.since } else { self.since };
        }
        self.until = self.until.max(other.until);
        self.live.add(&other.live);
        self.candidate.add(&other.candidate);
        self.refused.add(&other.refused);
        self.let_through.add(&other.let_through);
        for (sum, more) in [
            (&mut self.later, other.later),
            (&mut self.sooner, other.sooner),
        ] {
            sum.attempts += more.attempts;
            sum.together = sum.together.saturating_add(more.together);
        }
        self.other_reason += other.other_reason;
        self.forgotten += other.forgotten;
    }

    pub(super) fn note_time(&mut self, now: Time) {
        if self.since == Time::ORIGIN {
            self.since = now;
        }
        self.until = self.until.max(now);
    }

    pub(super) fn refuse(&mut self, reason: DenialReason, class: Class, count: u64) {
        if let Some(at) = self.refused.at(reason) {
            at.count(class, count);
        }
    }

    pub(super) fn let_go(&mut self, reason: DenialReason, class: Class) {
        if let Some(at) = self.let_through.at(reason) {
            at.count(class, 1);
        }
    }

    /// Notes how calls ended that the candidate had refused for this reason.
    pub(super) fn end_refused(&mut self, reason: DenialReason, end: End, count: u64) {
        if let Some(at) = self.refused.at(reason) {
            match end {
                End::Succeeded => at.succeeded += count,
                End::Failed => at.failed += count,
                End::Neither => {}
            }
        }
    }

    pub(super) fn shift(&mut self, live: Nanos, candidate: Nanos) {
        let (shift, by) = match candidate > live {
            true => (&mut self.later, candidate.saturating_sub(live)),
            false if candidate == live => return,
            false => (&mut self.sooner, live.saturating_sub(candidate)),
        };
        shift.attempts += 1;
        shift.together = shift.together.saturating_add(by);
    }
}

impl Differing {
    fn count(&mut self, class: Class, count: u64) {
        match class {
            Class::First => self.first_attempts += count,
            Class::Retry => self.retries += count,
        }
    }

    pub fn attempts(&self) -> u64 {
        self.first_attempts + self.retries
    }
}

fn sum(each: impl Iterator<Item = (DenialReason, Differing)>) -> Differing {
    each.fold(Differing::default(), |sum, (_, more)| Differing {
        first_attempts: sum.first_attempts + more.first_attempts,
        retries: sum.retries + more.retries,
        succeeded: sum.succeeded + more.succeeded,
        failed: sum.failed + more.failed,
    })
}

impl Class {
    pub fn of(question: &Question) -> Self {
        match question {
            Question::First => Self::First,
            Question::Confirm(permit) if permit.retry == 0 && permit.kind != PermitKind::Hedge => {
                Self::First
            }
            Question::Retry { .. } | Question::Hedge { .. } | Question::Confirm(_) => Self::Retry,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_place_in_the_table() {
        for (place, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
    }

    #[test]
    fn a_thousand_openings_are_counted_and_twenty_remembered() {
        let mut openings = Openings::default();
        for at in 1..=1_000 {
            openings.note(Cause::Suspicion(1.0), Time(at));
        }
        assert_eq!(openings.opened, 1_000);
        assert_eq!(openings.newest.len(), OPENINGS_KEPT);
        assert_eq!(openings.newest.front().unwrap().at, Time(981));
    }
}
