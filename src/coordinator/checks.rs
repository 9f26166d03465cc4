//! When checkers run their health checks.

use holdoff_decision::{
    Nanos,
    check::{self, Finished, Plan, Verdict},
    policy::Check,
};

use super::{Caller, Coordinator, Key, Refusal};
use crate::store::{Slot, Store};

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
        let planned = self
            .transact(id, ask.key, context.now, |slot| {
                let policy = slot.policy.check.clone()?;
                let checks = slot.checks_mut();
                let plan = check::plan(&policy, checks, checker, last, context.now, context.sample);
                let verdict = checks.verdict();
                slot.record.touched = slot.record.touched.max(context.now);
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
        })
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
