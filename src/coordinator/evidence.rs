//! What share of the calls failed that opened a breaker, for operators.
//!
//! The adaptive detector keeps a sum, not calls, and forgets it when it opens the breaker; the
//! average of the last outcomes lags behind, and says a quarter where five of five have failed. So
//! the calls are counted here, from the first that counts against the dependency until nothing does
//! any more, and what they came to is kept while the breaker is open. A window has its own counts,
//! and the cause of the transition carries them.
//!
//! Nothing is kept of a dependency without a failure, and it decides nothing. Over a shared store
//! each replica counts what it was told itself.

use holdoff_decision::{
    Ask, Question, Reported, Tally, Time,
    breaker::{Breaker, Cause, Phase, Verdict},
    permit::Outcome,
    policy::{Detect, Mode},
    window::{Counts, Reached},
};

use crate::store::{Evidence, Run, Slot};

/// Notes the attempt before, where the question told of one and it counted.
pub(super) fn note_asked(slot: &mut Slot, ask: &Ask, told: Option<Reported>, now: Time) {
    if let (Question::Retry { previous, .. }, Some(Reported::Ok)) = (&ask.question, told) {
        note_outcome(slot, &previous.outcome, Reported::Ok, now);
    }
}

/// Notes one attempt that ended, if it counted.
pub(super) fn note_outcome(slot: &mut Slot, outcome: &Outcome, told: Reported, now: Time) {
    if told != Reported::Ok {
        return;
    }
    if let Verdict::Counted(call) = Breaker::verdict(&slot.policy.breaker, outcome) {
        let ended = Counts {
            calls: 1,
            failures: u32::from(call.failed),
            slow: u32::from(call.slow),
        };
        note(slot, ended, now);
    }
}

/// Notes what one instance has counted, if it counted.
pub(super) fn note_tally(slot: &mut Slot, tally: &Tally, told: Reported, now: Time) {
    if told == Reported::Ok {
        let ended = tally.counts(&slot.policy.breaker);
        note(slot, ended, now);
    }
}

/// Called after each step that may have changed the breaker.
pub(super) fn settle(slot: &mut Slot, now: Time) {
    let breaker = &slot.record.breaker;
    let kept = slot.evidence();
    let settled = match (breaker.phase, kept) {
        (Phase::Open | Phase::HalfOpen, Some(Evidence { opened, .. })) if opened.is_some() => kept,
        (Phase::Open | Phase::HalfOpen, _) => {
            let counted = kept.unwrap_or_default().counts;
            let opened = of_cause(breaker.past().cause).or((counted.calls > 0).then_some(counted));
            opened.map(|_| Evidence {
                counts: Counts::default(),
                opened,
            })
        }
        (Phase::Closed, Some(Evidence { opened, .. })) => {
            let lasts = opened.is_none() && breaker.suspicion(now) > 0.0;
            kept.filter(|_| lasts)
        }
        (Phase::Closed, None) => None,
    };
    if settled != kept {
        slot.put_evidence(settled);
    }
}

/// A cause, and of the adaptive detector the calls that its sum came from.
pub(super) fn told(cause: Cause, opened: Option<Counts>) -> String {
    match (cause, opened) {
        (
            Cause::Suspicion(_),
            Some(Counts {
                calls, failures, ..
            }),
        ) => {
            format!("{cause}: {failures} of {calls} calls failed")
        }
        _ => cause.to_string(),
    }
}

fn note(slot: &mut Slot, ended: Counts, now: Time) {
    let policy = &slot.policy.breaker;
    let is_counted = policy.mode != Mode::Off && policy.detect == Detect::Adaptive;
    let known = slot.evidence();
    // What is rehearsed is done again.
    if !is_counted || known.is_none() && ended.failures == 0 || slot.notes.run() == Run::Rehearsal {
        return;
    }
    let mut evidence = known.unwrap_or_default();
    let counts = &mut evidence.counts;
    counts.calls = counts.calls.saturating_add(ended.calls);
    counts.failures = counts.failures.saturating_add(ended.failures);
    counts.slow = counts.slow.saturating_add(ended.slow);
    slot.put_evidence(Some(evidence));
    settle(slot, now);
}

/// The numbers in a cause that has them.
fn of_cause(cause: Cause) -> Option<Counts> {
    match cause {
        Cause::Window(Reached::ConsecutiveFailures(failures)) => Some(Counts {
            calls: failures,
            failures,
            slow: 0,
        }),
        Cause::Window(Reached::FailureRatio(counts) | Reached::SlowRatio(counts)) => Some(counts),
        Cause::New
        | Cause::Suspicion(_)
        | Cause::ProbeFailed(_)
        | Cause::ProbeSlow(_)
        | Cause::FirstProbe
        | Cause::ProbesSucceeded(_)
        | Cause::Recovered
        | Cause::Override
        | Cause::OverrideCleared
        | Cause::OverrideExpired
        | Cause::Reset
        | Cause::Restored => None,
    }
}
