//! Decisions without the service: its own rules, over what this process alone knows.
//!
//! The composition is [`holdoff_decision::acquire`], the very one that the service runs, on
//! a record of this process's own. So order, reasons and numbers are the same, and only the
//! evidence is smaller.
//!
//! The policy is the last one that the service pushed for the dependency, with this client's
//! share of the fleet's floor; without one it is the client's own.
//!
//! What the service last denied for all (an open breaker, a hold) is kept until its own end,
//! five minutes at most: an open state that nobody refreshes lapses.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use holdoff_decision::{
    self as decision, Ask, Context, Grant, MadeUnder, Nanos, OutcomeKind, Policy, Previous,
    Priority, Question, Record, Sample, Share, Time,
    breaker::Phase,
    operate,
    policy::{Breaker, Budget, Calendar, Mode, Ramp, RetryRate},
    report::Tally,
};

use crate::{
    denied::{DenialReason, Denied, DeniedBy},
    entropy,
    outcome::Outcome,
    pushed::Kept,
};

/// What the fleet said is kept no longer than this without being said again.
const REMEMBERED_MAX: Nanos = Nanos::from_secs(300);
/// A process sees its own attempts end, so that one which takes long is not silent: nothing
/// is made of it before this.
const ATTEMPT_MAX: Nanos = Nanos::from_secs(24 * 3600);
const DEPENDENCIES_MAX: usize = 10_000;
/// A dependency that was not called for so long may be forgotten.
const IDLE: Nanos = Nanos::from_secs(600);
/// A record has one caller, this process.
const ONLY_CALLER: u64 = 0;

/// The policy of a process on its own: the documented one, but for a budget of a tenth of
/// its own first attempts and one retry a second, and without a calendar and a ramp, which
/// plan the calls of many. What is left of the rules is a page (`docs/vectors.md`, local).
pub(crate) fn policy() -> Policy {
    Policy {
        breaker: Breaker {
            permit_ttl: ATTEMPT_MAX,
            ..Breaker::default()
        },
        ramp: Ramp {
            start: Share::ONE,
            ..Ramp::default()
        },
        calendar: Calendar {
            retry_rate: RetryRate::Off,
            ..Calendar::default()
        },
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
    /// Nothing that the fleet denied: it has let this attempt go.
    OwnRecord,
    /// No breaker and nothing that the fleet said.
    RetriesOnly,
}

#[derive(Debug)]
pub(crate) struct Local {
    own: Arc<Policies>,
    entries: Mutex<HashMap<Arc<str>, Entry>>,
}

/// One policy, as it binds more and less.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policies {
    pub(crate) all: Policy,
    /// The same without a breaker.
    retries_only: Policy,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    /// Of the last question; its reports are taken by the same.
    policies: Arc<Policies>,
    fleet: Option<Remembered>,
}

/// The fleet's last denial for all.
#[derive(Debug)]
struct Remembered {
    denied: Denied,
    since: Time,
    until: Time,
}

/// A question that this process answers itself.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// What the service said last; `None`: nothing yet.
    pub(crate) kept: Option<Kept>,
    pub(crate) question: Question,
    pub(crate) idempotent: bool,
    pub(crate) time_left: Option<Nanos>,
    pub(crate) cost: u32,
    pub(crate) priority: Priority,
    pub(crate) strictness: Strictness,
}

impl Policies {
    pub(crate) fn new(all: Policy) -> Self {
        let retries_only = Policy {
            breaker: Breaker {
                mode: Mode::Off,
                ..all.breaker.clone()
            },
            ..all.clone()
        };
        Self { all, retries_only }
    }

    fn binding(&self, strictness: Strictness) -> &Policy {
        match strictness {
            Strictness::All | Strictness::OwnRecord => &self.all,
            Strictness::RetriesOnly => &self.retries_only,
        }
    }
}

impl Local {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            own: Arc::new(Policies::new(policy)),
            entries: Mutex::new(HashMap::new()),
        }
    }

    /// What is kept to where the service has said nothing.
    pub(crate) fn own(&self) -> &Arc<Policies> {
        &self.own
    }

    pub(crate) fn ask(
        &self,
        dependency: &Arc<str>,
        asked: &Asked,
        now: Time,
        sample: Sample,
    ) -> Result<Grant, Denied> {
        let mut entries = self.lock();
        let entry = self.entry_of(&mut entries, dependency, now);
        let context = context(now, sample);
        if let Some(kept) = &asked.kept {
            entry.keep_to(kept, now);
        }
        if asked.strictness == Strictness::All
            && let Some(denied) = entry.heed_fleet(now)
        {
            entry.take_previous(asked, &context);
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
            priority: asked.priority,
        };
        let policy = entry.policies.binding(asked.strictness);
        let answer = decision::acquire(policy, &mut entry.record, &ask, &context);
        entry.record.take_changes();
        answer.verdict.map_err(|denial| Denied::local(&denial))
    }

    /// Takes the outcome that a question tells, and answers nothing: the service has said
    /// before what the answer is.
    pub(crate) fn note(&self, dependency: &Arc<str>, asked: &Asked, now: Time) {
        let mut entries = self.lock();
        let entry = self.entry_of(&mut entries, dependency, now);
        if let Some(kept) = &asked.kept {
            entry.keep_to(kept, now);
        }
        entry.take_previous(asked, &context(now, Sample::default()));
    }

    /// A first attempt that the service let go ended so, and no question tells of it.
    pub(crate) fn count(
        &self,
        dependency: &Arc<str>,
        kept: Option<&Kept>,
        outcome: &Outcome,
        now: Time,
    ) {
        let mut entries = self.lock();
        let entry = self.entry_of(&mut entries, dependency, now);
        if let Some(kept) = kept {
            entry.keep_to(kept, now);
        }
        let record = &mut entry.record;
        let ended = tally(record.breaker.epoch, &outcome.as_decision());
        let context = context(now, Sample::default());
        decision::tally(&entry.policies.all, record, &ended, ONLY_CALLER, &context);
        record.take_changes();
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
        let entry = self.entry_of(&mut entries, dependency, now);
        let outcome = outcome.as_decision();
        let context = context(now, Sample::default());
        let policy = &entry.policies.all;
        decision::report(
            policy,
            &mut entry.record,
            permit,
            &outcome,
            ONLY_CALLER,
            &context,
        );
        entry.record.take_changes();
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
            let mut entries = self.lock();
            self.entry_of(&mut entries, dependency, now).fleet = Some(Remembered {
                denied: denied.clone(),
                since: now,
                until,
            });
        }
    }

    /// The service grants again.
    pub(crate) fn let_go(&self, dependency: &Arc<str>, now: Time) {
        if let Some(entry) = self.lock().get_mut(dependency) {
            entry.let_go(|_| true, now);
        }
    }

    /// The epoch of this process's own record.
    pub(crate) fn epoch(&self, dependency: &Arc<str>, now: Time) -> u64 {
        let mut entries = self.lock();
        let entry = self.entry_of(&mut entries, dependency, now);
        entry.record.breaker.epoch
    }

    /// Past the limit those not called for long go, and then those unknown share one record.
    fn entry_of<'a>(
        &self,
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
            policies: Arc::clone(&self.own),
            fleet: None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn keep_to(&mut self, kept: &Kept, now: Time) {
        self.policies = Arc::clone(&kept.policies);
        if let Some(at) = kept.let_go_at {
            self.let_go(|since| at > since, now);
        }
    }

    /// The fleet let first attempts go: its denials from before are over, and so is what this
    /// process's own breaker, which knew less, made of the failures before.
    fn let_go(&mut self, is_before: impl Fn(Time) -> bool, now: Time) {
        self.fleet.take_if(|fleet| is_before(fleet.since));
        let breaker = &self.record.breaker;
        if breaker.phase != Phase::Closed && is_before(breaker.since) {
            operate::reset(&mut self.record, now);
            self.record.take_changes();
        }
    }

    fn heed_fleet(&mut self, now: Time) -> Option<Denied> {
        let Remembered { denied, until, .. } = self.fleet.as_ref()?;
        if now < *until {
            let mut denied = denied.clone();
            denied.by = DeniedBy::Local;
            return Some(denied.after(Some(now.until(*until).into())));
        }
        self.fleet = None;
        None
    }

    /// The outcome before counts whatever the answer is.
    fn take_previous(&mut self, asked: &Asked, context: &Context) {
        let Question::Retry { previous, .. } = &asked.question else {
            return;
        };
        let policy = self.policies.binding(asked.strictness);
        let record = &mut self.record;
        let Previous {
            made_under,
            outcome,
        } = previous;
        match made_under {
            MadeUnder::Permit(permit) => {
                decision::report(policy, record, permit, outcome, ONLY_CALLER, context);
            }
            MadeUnder::Epoch(epoch) => {
                decision::tally(
                    policy,
                    record,
                    &tally(*epoch, outcome),
                    ONLY_CALLER,
                    context,
                );
            }
            MadeUnder::EarlierRun(_) | MadeUnder::Unknown => {}
        }
        record.take_changes();
    }
}

/// One first attempt that ended so.
fn tally(epoch: u64, outcome: &decision::Outcome) -> Tally {
    let count = |kinds: &[OutcomeKind]| u32::from(kinds.contains(&outcome.kind));
    Tally {
        epoch,
        first_attempts: 1,
        successes: count(&[OutcomeKind::Success]),
        failures: count(&[OutcomeKind::Failure, OutcomeKind::NotSent]),
        timeouts: count(&[OutcomeKind::Timeout]),
        throttled: count(&[OutcomeKind::Throttled]),
        rejected: count(&[OutcomeKind::Rejected]),
        slow: 0,
        ignored: count(&[OutcomeKind::Ignored, OutcomeKind::Cancelled]),
        latency_sum: outcome.latency.unwrap_or_default(),
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

#[cfg(test)]
mod tests;
