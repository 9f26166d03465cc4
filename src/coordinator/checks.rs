//! When checkers run their health checks.

use holdoff_decision::{
    Nanos, Time,
    check::{self, Checks, Finished, Plan, Verdict},
    policy::Check,
};

use super::{Caller, Coordinator, Event, EventKind, Key, Refusal};
use crate::{
    clock,
    permit::DependencyId,
    store::{Run, Slot, Store, by_fleet},
    telemetry::Counter,
};

/// One question of a checker.
#[derive(Clone, Copy, Debug)]
pub struct CheckAsk<'a> {
    pub key: Key<'a>,
    pub checker: Caller<'a>,
    /// The permit of the check before, and whether the dependency was healthy.
    pub last: Option<(&'a [u8], bool)>,
}

/// A plan, and what all checkers have found.
#[derive(Clone, Debug)]
pub struct Planned {
    pub plan: Plan,
    /// Of a run.
    pub permit: Option<bytes::Bytes>,
    pub verdict: Verdict,
    /// The policy's.
    pub period: Nanos,
    /// From this replica's memory alone: the shared store is away.
    pub degraded: bool,
}

impl<S: Store> Coordinator<S> {
    /// Tells a checker when to check next, or what others have found.
    ///
    /// # Errors
    /// [`Refusal::NoCheck`] where the policy plans no checks.
    pub async fn plan_check(&self, ask: CheckAsk<'_>) -> Result<Planned, Refusal> {
        let id = self.id(ask.key);
        // The result of a check that an earlier run of the service planned is no result.
        let last = ask.last.and_then(|(permit, healthy)| {
            let serial = self.permits.read_check(id, permit)?;
            Some(Finished { serial, healthy })
        });
        let checker = check::checker_name(
            ask.key.dependency,
            ask.checker.service,
            ask.checker.instance,
        );
        let context = self.context();
        let mut degraded = false;
        let planned = self
            .transact(id, ask.key, context.now, by_fleet, |slot| {
                degraded = slot.notes.run() == Run::Alone;
                let policy = slot.policy.check.clone()?;
                let checks = slot.checks_mut();
                let taken = last.filter(|last| checks.awaits(checker, last.serial));
                let before = Before::of(checks);
                let plan = check::plan(&policy, checks, checker, last, context.now, context.sample);
                let verdict = checks.verdict();
                slot.record.touched = slot.record.touched.max(context.now);
                if slot.notes.run() != Run::Rehearsal {
                    self.count_check(&plan, taken);
                    self.tell_verdict(id, slot, &before, ask.checker, context.now);
                }
                Some((plan, verdict, policy.period))
            })
            .await?;
        let (plan, verdict, period) =
            planned.ok_or_else(|| Refusal::NoCheck(ask.key.dependency.to_owned()))?;
        let permit = match plan {
            Plan::Run { serial, .. } => Some(self.permits.write_check(id, serial)),
            Plan::Shared { .. } => None,
        };
        Ok(Planned {
            plan,
            permit,
            verdict,
            period,
            degraded,
        })
    }
}

/// What was known before a result was taken.
struct Before {
    verdict: Verdict,
    failures: u32,
}

impl Before {
    fn of(checks: &Checks) -> Self {
        Self {
            verdict: checks.verdict(),
            failures: checks.failures(),
        }
    }
}

impl<S: Store> Coordinator<S> {
    fn count_check(&self, plan: &Plan, taken: Option<Finished>) {
        self.telemetry.add(match plan {
            Plan::Run { .. } => Counter::CheckPlanned,
            Plan::Shared { .. } => Counter::CheckShared,
        });
        if let Some(taken) = taken {
            self.telemetry.add(match taken.healthy {
                true => Counter::CheckPassed,
                false => Counter::CheckFailed,
            });
        }
    }

    /// Called while the record is held, so that verdicts are told in their order. The first
    /// good result of a dependency is no news.
    fn tell_verdict(
        &self,
        id: DependencyId,
        slot: &Slot,
        before: &Before,
        checker: Caller<'_>,
        now: Time,
    ) {
        let Some(checks) = slot.checks() else {
            return;
        };
        let instance = checker.instance;
        let (kind, counter, detail) = match (before.verdict, checks.verdict()) {
            (Verdict::Unknown | Verdict::Healthy, Verdict::Unhealthy) => {
                let count = checks.failures();
                let detail = format!(
                    "{count} health checks failed in a row, the last one by instance {instance:?}"
                );
                (EventKind::CheckUnhealthy, Counter::CheckUnhealthy, detail)
            }
            (Verdict::Unhealthy, Verdict::Healthy) => {
                let count = before.failures;
                let detail = format!(
                    "a health check by instance {instance:?} succeeded after {count} that failed"
                );
                (EventKind::CheckHealthy, Counter::CheckHealthy, detail)
            }
            (before, verdict) => {
                if before != verdict {
                    self.watchers.changed(id, &slot.name);
                }
                return;
            }
        };
        self.telemetry.add(counter);
        self.hand_over(Event {
            sequence: 0,
            time: clock::to_wall(now),
            kind,
            namespace: slot.name.namespace.to_string(),
            dependency: slot.name.dependency.to_string(),
            states: None,
            epoch: slot.record.breaker.epoch,
            detail,
            owner: String::new(),
            teller: Default::default(),
        });
        self.watchers.changed(id, &slot.name);
    }
}

/// Whether a dependency's checkers have not asked for so long that its schedule may go.
pub fn may_be_dropped(slot: &Slot, idle_for: Nanos, now: holdoff_decision::Time) -> bool {
    let period = slot
        .policy
        .check
        .as_ref()
        .map_or(Nanos::ZERO, |check: &Check| check.period);
    let silent_for = now.since(slot.record.touched);
    slot.checks().is_none() || silent_for >= idle_for.max(Nanos(period.0.saturating_mul(3)))
}
