//! Reads one update. It is never mended by a default that lets a call go: what cannot be
//! read is "ask".

use std::sync::Arc;

use holdoff_decision::{Nanos, Policy, Time};

use super::policy;
use crate::{local::Policies, proto, wire};

/// Nothing is relied on for longer without being said again.
const VALID_MAX: Nanos = Nanos::from_secs(300);

/// One update, read.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) state: proto::BreakerState,
    pub(super) epoch: u64,
    pub(super) first_attempts: proto::FirstAttempts,
    /// Not later than when it was heard: there is nothing to rely on.
    pub(super) valid_until: Time,
    /// Zero: no call is slow.
    pub(super) slow_after: Nanos,
    pub(super) let_go_at: Option<Time>,
    pub(super) policies: Arc<Policies>,
    /// What `policies` was read from, which is the same most of the time.
    said: Said,
}

type Said = (Option<proto::ClientPolicy>, Option<proto::OfflineAllowance>);

impl Heard {
    pub(super) fn read(
        update: &proto::Update,
        before: Option<&Self>,
        base: &Policy,
        now: Time,
    ) -> Self {
        let (state, first_attempts) = standing(update);
        let said = (update.policy, update.offline_allowance);
        let policies = match before {
            Some(before) if before.said == said => Arc::clone(&before.policies),
            Some(_) | None => {
                let (policy, allowance) = (said.0.as_ref(), said.1.as_ref());
                Arc::new(Policies::new(policy::read(policy, allowance, base)))
            }
        };
        let lets_go = first_attempts == proto::FirstAttempts::Go;
        Self {
            state,
            epoch: update.epoch,
            first_attempts,
            valid_until: now + valid_for(update),
            slow_after: policies.all.breaker.slow_after,
            let_go_at: match lets_go {
                true => Some(now),
                false => before.and_then(|before| before.let_go_at),
            },
            policies,
            said,
        }
    }

    /// Clients that share the allowance; 0: it was not said.
    pub(super) fn known_clients(&self) -> u32 {
        let allowance = self.said.1.as_ref();
        allowance.map_or(0, |allowance| allowance.known_clients)
    }

    /// Retries are denied, whatever first attempts do.
    pub(super) fn refuses(&self) -> bool {
        self.is_open() || self.first_attempts == proto::FirstAttempts::Refuse
    }

    pub(super) fn is_open(&self) -> bool {
        use proto::BreakerState::{ForcedOpen, Open};
        matches!(self.state, Open | ForcedOpen)
    }

    pub(super) fn is_closed(&self) -> bool {
        use proto::BreakerState::{Closed, ForcedClosed};
        matches!(self.state, Closed | ForcedClosed)
    }
}

/// A state that this client does not know may mean anything, so it asks.
fn standing(update: &proto::Update) -> (proto::BreakerState, proto::FirstAttempts) {
    let state = proto::BreakerState::try_from(update.state).unwrap_or_default();
    let first_attempts = proto::FirstAttempts::try_from(update.first_attempts);
    match (state, first_attempts) {
        (proto::BreakerState::Unspecified, _) | (_, Err(_)) => (state, proto::FirstAttempts::Ask),
        (_, Ok(first_attempts)) => (state, first_attempts),
    }
}

fn valid_for(update: &proto::Update) -> Nanos {
    match wire::read_duration(update.valid_for) {
        Ok(Some(valid_for)) => Nanos::from(valid_for).min(VALID_MAX),
        Ok(None) | Err(_) => Nanos::ZERO,
    }
}
