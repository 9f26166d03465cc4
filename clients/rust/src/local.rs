//! Decisions without the service: the same rules, over what this process alone knows.
//!
//! The order is that of the service: may it be retried at all, what the fleet last said, the
//! breaker, the delay, the deadline, the budget; a denial consumes nothing. (The outcome of
//! the attempt before is recorded by [`Local::report`], once, before the question.) It leaves out what only a fleet has: the calendar, rates shared with
//! others, evidence of several instances.
//!
//! What the service last denied for all (an open breaker, a hold) is kept until its own end,
//! five minutes at most: an open state that nobody refreshes lapses.

mod breaker;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdoff_decision::{
    Nanos, Policy, Share, Time, backoff,
    budget::Budget,
    policy::{Budget as BudgetPolicy, MaxAttempts},
    pushback,
};

use self::breaker::{Admitted, Breaker};
use crate::{
    denied::{DenialReason, Denied, DeniedBy},
    outcome::{Outcome, OutcomeKind},
};

/// What the fleet said is kept no longer than this without being said again.
const REMEMBERED_MAX: Nanos = Nanos::from_secs(300);
const DEPENDENCIES_MAX: usize = 10_000;
/// A dependency that was not called for so long may be forgotten.
const IDLE: Nanos = Nanos::from_secs(600);

/// The policy of a process on its own: the documented one, but for a budget of a tenth of
/// its own first attempts and one retry a second.
pub(crate) fn policy() -> Policy {
    Policy {
        budget: BudgetPolicy {
            ratio: Share(100_000),
            ..BudgetPolicy::default()
        },
        ..Policy::default()
    }
}

/// How much of the rules binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    All,
    /// Nothing stops a first attempt, and no breaker a retry.
    RetriesOnly,
}

#[derive(Debug)]
pub(crate) struct Local {
    policy: Policy,
    records: Mutex<HashMap<Arc<str>, Record>>,
}

/// What is known of one dependency.
#[derive(Debug, Default)]
struct Record {
    used: Time,
    breaker: Breaker,
    budget: Budget,
    /// The fleet's last denial for all, and its end.
    fleet: Option<(Denied, Time)>,
}

/// May this attempt be made?
pub(crate) struct Asked<'a> {
    pub(crate) dependency: &'a Arc<str>,
    pub(crate) attempt: u32,
    pub(crate) is_hedge: bool,
    pub(crate) previous: Option<(Option<&'a Ticket>, &'a Outcome)>,
    pub(crate) time_left: Option<Duration>,
    pub(crate) strictness: Strictness,
}

/// The permit of a process on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    admitted: Admitted,
    /// The number of the retry that the backoff counts; 0 for a first attempt.
    retry: u32,
    delay: Nanos,
}

/// Yes, after `delay`.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) delay: Duration,
    pub(crate) ticket: Ticket,
    /// How long the lease of a probe lasts.
    pub(crate) lease: Option<Duration>,
}

impl Local {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            records: Mutex::new(HashMap::new()),
        }
    }

    /// `unit` is uniform in [0, 1).
    pub(crate) fn ask(&self, asked: &Asked<'_>, now: Time, unit: f64) -> Result<Granted, Denied> {
        let mut records = self.lock();
        let record = record_of(&mut records, asked.dependency, now);
        self.may_be_retried(asked)?;
        record.heed_fleet(asked.strictness, now)?;
        let admitted = match asked.strictness {
            Strictness::All => record.breaker.look(&self.policy.breaker, now, unit)?,
            Strictness::RetriesOnly => Admitted::Uncounted,
        };
        let (delay, retry) = self.delay(asked, admitted, unit)?;
        self.fits(asked, delay)?;
        self.charge(record, asked, now)?;
        record.breaker.admit(&self.policy.breaker, admitted, now);
        Ok(Granted {
            delay: delay.into(),
            lease: admitted
                .is_probe()
                .then(|| self.policy.breaker.probe_lease.into()),
            ticket: Ticket {
                admitted,
                retry,
                delay,
            },
        })
    }

    /// How an attempt ended.
    pub(crate) fn report(
        &self,
        dependency: &Arc<str>,
        ticket: &Ticket,
        outcome: &Outcome,
        now: Time,
    ) {
        let mut records = self.lock();
        let record = record_of(&mut records, dependency, now);
        record
            .breaker
            .record(&self.policy.breaker, ticket.admitted, outcome, now);
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
            record_of(&mut self.lock(), dependency, now).fleet = Some((denied.clone(), until));
        }
    }

    /// The service grants again.
    pub(crate) fn forget(&self, dependency: &Arc<str>) {
        if let Some(record) = self.lock().get_mut(dependency) {
            record.fleet = None;
        }
    }

    fn may_be_retried(&self, asked: &Asked<'_>) -> Result<(), Denied> {
        match self.policy.retry.max_attempts {
            MaxAttempts::Limited(max) if asked.attempt > max => Err(local(
                DenialReason::AttemptsExhausted,
                format!("{max} of {max} attempts were made"),
            )),
            MaxAttempts::Limited(_) | MaxAttempts::Unlimited => Ok(()),
        }
    }

    /// The delay, and the number of the retry by which it was drawn.
    fn delay(
        &self,
        asked: &Asked<'_>,
        admitted: Admitted,
        unit: f64,
    ) -> Result<(Nanos, u32), Denied> {
        let Some((ticket, outcome)) = asked.previous.filter(|_| !asked.is_hedge) else {
            return Ok((Nanos::ZERO, 0));
        };
        let wait = outcome.pushback.map(Nanos::from);
        let longest = self.policy.pushback.max;
        if let Some(wait) = wait.filter(|wait| *wait > longest) {
            let detail = format!("it asked for {wait}, the policy allows {longest}");
            return Err(local(DenialReason::PushbackTooLong, detail).after(Some(wait.into())));
        }
        let retry = match (outcome.pushback_restarts_backoff, ticket) {
            (true, _) => 1,
            (false, Some(ticket)) => ticket.retry.saturating_add(1),
            (false, None) => asked.attempt.saturating_sub(1),
        };
        let before = ticket.map_or(Nanos::ZERO, |ticket| ticket.delay);
        let drawn = match admitted.is_probe() {
            true => Nanos::ZERO,
            false => backoff::delay(&self.policy.retry, retry, before, unit),
        };
        let delay = pushback::floor(&self.policy.pushback, drawn, wait, unit);
        Ok((delay, retry))
    }

    /// A delay is never shortened to fit.
    fn fits(&self, asked: &Asked<'_>, delay: Nanos) -> Result<(), Denied> {
        let needed = delay.saturating_add(self.policy.retry.min_attempt_time);
        match asked.time_left.map(Nanos::from) {
            Some(left) if needed >= left => Err(local(
                DenialReason::Deadline,
                format!("it would begin in {delay}, and {left} are left"),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn charge(&self, record: &mut Record, asked: &Asked<'_>, now: Time) -> Result<(), Denied> {
        const ONLY_CALLER: u64 = 0;
        let policy = &self.policy.budget;
        if asked.attempt <= 1 && !asked.is_hedge {
            record.budget.deposit(policy, 1, now);
            return Ok(());
        }
        let looked = record.budget.look(policy, ONLY_CALLER, Time::ORIGIN, now);
        looked.map_err(|_| {
            let detail = "this process has made all the retries that it may make alone";
            local(DenialReason::BudgetExhausted, detail)
        })?;
        record.budget.withdraw(policy, ONLY_CALLER, now);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn heed_fleet(&mut self, strictness: Strictness, now: Time) -> Result<(), Denied> {
        match &self.fleet {
            Some((denied, until)) if strictness == Strictness::All && now < *until => {
                let mut denied = denied.clone();
                denied.by = DeniedBy::Local;
                Err(denied.after(Some(now.until(*until).into())))
            }
            Some(_) | None => {
                self.fleet = None;
                Ok(())
            }
        }
    }
}

/// Past the limit those not called for long go, and then those unknown share one record.
fn record_of<'a>(
    records: &'a mut HashMap<Arc<str>, Record>,
    dependency: &Arc<str>,
    now: Time,
) -> &'a mut Record {
    if records.len() >= DEPENDENCIES_MAX && !records.contains_key(dependency) {
        records.retain(|_, record| now.since(record.used) < IDLE);
    }
    let is_full = records.len() >= DEPENDENCIES_MAX && !records.contains_key(dependency);
    let name = match is_full {
        true => Arc::from(""),
        false => Arc::clone(dependency),
    };
    let record = records.entry(name).or_default();
    record.used = now;
    record
}

fn local(reason: DenialReason, detail: impl Into<String>) -> Denied {
    Denied::new(DeniedBy::Local, reason, detail)
}

/// What an outcome says about the dependency: `Some(true)` for a failure.
fn is_failure(outcome: &Outcome) -> Option<bool> {
    match outcome.kind {
        OutcomeKind::Success => Some(false),
        OutcomeKind::Failure | OutcomeKind::Timeout | OutcomeKind::NotSent => Some(true),
        OutcomeKind::Throttled
        | OutcomeKind::Rejected
        | OutcomeKind::Ignored
        | OutcomeKind::Cancelled => None,
    }
}

#[cfg(test)]
mod tests;
