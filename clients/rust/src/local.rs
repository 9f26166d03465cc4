//! Decisions without the service: its own rules, over what this process alone knows.
//!
//! The composition is [`holdoff_decision::acquire`], the very one that the service runs, on
//! a record of this process's own. So order, reasons and numbers are the same, and only the
//! evidence is smaller.
//!
//! What the service last denied for all (an open breaker, a hold) is kept until its own end,
//! five minutes at most: an open state that nobody refreshes lapses.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use holdoff_decision::{
    self as decision, Ask, Context, Grant, MadeUnder, Nanos, Policy, Previous, Question, Record,
    Sample, Share, Time,
    policy::{Breaker, Budget, Mode},
};

use crate::{
    denied::{DenialReason, Denied, DeniedBy},
    entropy,
    outcome::Outcome,
};

/// What the fleet said is kept no longer than this without being said again.
const REMEMBERED_MAX: Nanos = Nanos::from_secs(300);
const DEPENDENCIES_MAX: usize = 10_000;
/// A dependency that was not called for so long may be forgotten.
const IDLE: Nanos = Nanos::from_secs(600);
/// A record has one caller, this process.
const ONLY_CALLER: u64 = 0;

/// The policy of a process on its own: the documented one, but for a budget of a tenth of
/// its own first attempts and one retry a second.
pub(crate) fn policy() -> Policy {
    Policy {
        budget: Budget {
            ratio: Share(100_000),
            ..Budget::default()
        },
        ..Policy::default()
    }
}

/// How much of the rules binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    All,
    /// No breaker and nothing that the fleet said.
    RetriesOnly,
}

#[derive(Debug)]
pub(crate) struct Local {
    policy: Policy,
    /// The same without a breaker.
    lenient: Policy,
    entries: Mutex<HashMap<Arc<str>, Entry>>,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    /// The fleet's last denial for all, and its end.
    fleet: Option<(Denied, Time)>,
}

/// A question that this process answers itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) idempotent: bool,
    pub(crate) time_left: Option<Nanos>,
    pub(crate) cost: u32,
    pub(crate) strictness: Strictness,
}

impl Local {
    pub(crate) fn new(policy: Policy) -> Self {
        let lenient = Policy {
            breaker: Breaker {
                mode: Mode::Off,
                ..policy.breaker.clone()
            },
            ..policy.clone()
        };
        Self {
            policy,
            lenient,
            entries: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn ask(
        &self,
        dependency: &Arc<str>,
        asked: &Asked,
        now: Time,
        sample: Sample,
    ) -> Result<Grant, Denied> {
        let mut entries = self.lock();
        let entry = entry_of(&mut entries, dependency, now);
        let context = context(now, sample);
        if asked.strictness == Strictness::All
            && let Some(denied) = entry.heed_fleet(now)
        {
            entry.take_previous(&self.policy, &asked.question, &context);
            return Err(denied);
        }
        let ask = Ask {
            question: asked.question,
            caller: ONLY_CALLER,
            service: ONLY_CALLER,
            // A question is never lost on its way here, so none needs to be recognised.
            call: None,
            idempotent: asked.idempotent,
            time_left: asked.time_left,
            cost: asked.cost.max(1),
        };
        let policy = match asked.strictness {
            Strictness::All => &self.policy,
            Strictness::RetriesOnly => &self.lenient,
        };
        let answer = decision::acquire(policy, &mut entry.record, &ask, &context);
        entry.record.take_changes();
        answer.verdict.map_err(|denial| Denied::local(&denial))
    }

    /// How an attempt ended; once, however often it is said.
    pub(crate) fn report(
        &self,
        dependency: &Arc<str>,
        permit: &decision::Permit,
        outcome: &Outcome,
        now: Time,
    ) {
        let mut entries = self.lock();
        let record = &mut entry_of(&mut entries, dependency, now).record;
        let outcome = outcome.as_decision();
        let context = context(now, Sample::default());
        decision::report(&self.policy, record, permit, &outcome, &context);
        record.take_changes();
    }

    /// What the service said, for the time when it no longer says anything.
    pub(crate) fn remember(&self, dependency: &Arc<str>, denied: &Denied, now: Time) {
        let binds_all = matches!(
            denied.reason,
            DenialReason::ForcedOpen
                | DenialReason::BreakerOpen
                | DenialReason::Held
                | DenialReason::CallerFault
        );
        if binds_all {
            let lasts = denied.retry_after.map_or(REMEMBERED_MAX, Nanos::from);
            let until = now + lasts.min(REMEMBERED_MAX);
            entry_of(&mut self.lock(), dependency, now).fleet = Some((denied.clone(), until));
        }
    }

    /// The service grants again.
    pub(crate) fn forget(&self, dependency: &Arc<str>) {
        if let Some(entry) = self.lock().get_mut(dependency) {
            entry.fleet = None;
        }
    }

    /// The epoch of this process's own record.
    pub(crate) fn epoch(&self, dependency: &Arc<str>, now: Time) -> u64 {
        let mut entries = self.lock();
        entry_of(&mut entries, dependency, now).record.breaker.epoch
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn heed_fleet(&mut self, now: Time) -> Option<Denied> {
        let (denied, until) = self.fleet.as_ref()?;
        if now < *until {
            let mut denied = denied.clone();
            denied.by = DeniedBy::Local;
            return Some(denied.after(Some(now.until(*until).into())));
        }
        self.fleet = None;
        None
    }

    /// The outcome before counts whatever the answer is.
    fn take_previous(&mut self, policy: &Policy, question: &Question, context: &Context) {
        if let Question::Retry { previous, .. } = question
            && let Previous {
                made_under: MadeUnder::Permit(permit),
                outcome,
            } = previous
        {
            decision::report(policy, &mut self.record, permit, outcome, context);
            self.record.take_changes();
        }
    }
}

/// Two draws from the operating system's generator.
pub(crate) fn sample() -> Sample {
    Sample {
        jitter: entropy::unit(),
        spread: entropy::unit(),
    }
}

fn context(now: Time, sample: Sample) -> Context {
    Context {
        now,
        sample,
        restarted: None,
    }
}

/// Past the limit those not called for long go, and then those unknown share one record.
fn entry_of<'a>(
    entries: &'a mut HashMap<Arc<str>, Entry>,
    dependency: &Arc<str>,
    now: Time,
) -> &'a mut Entry {
    if entries.len() >= DEPENDENCIES_MAX && !entries.contains_key(dependency) {
        entries.retain(|_, entry| now.since(entry.record.touched) < IDLE);
    }
    let is_full = entries.len() >= DEPENDENCIES_MAX && !entries.contains_key(dependency);
    let name = match is_full {
        true => Arc::from(""),
        false => Arc::clone(dependency),
    };
    entries.entry(name).or_insert_with(|| Entry {
        record: Record::new(1, now),
        fleet: None,
    })
}

#[cfg(test)]
mod tests;
