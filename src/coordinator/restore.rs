//! How a coordinator begins: with what the data directory kept of the run before.

use std::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64},
};

use holdoff_decision::{
    Nanos, Record, Time,
    breaker::{Cause, Phase},
    operate::{self, Checkpoint},
    record::{Override, OverrideKind},
    throughput::Health,
};

use super::{
    Coordinator, Event, EventKind, Events, Key, Policies, altering, candidates,
    policies::InForce,
    predecessor::{Evidence, Predecessor},
    put::PutPolicies,
};
use crate::{
    clock::{self, Clock},
    durable::{self, Durable, Opened, Restored},
    entropy::Entropy,
    permit::PermitCodec,
    policy::{Finding, Source},
    store::{Store, by_store},
};

/// What a coordinator is made of.
#[derive(Debug)]
pub struct Parts<S> {
    pub store: S,
    pub clock: Clock,
    pub entropy: Entropy,
    pub opened: Opened,
}

/// A coordinator that begins, and what was to be left behind.
#[derive(Debug)]
pub struct Start<S> {
    pub coordinator: Coordinator<S>,
    /// Sentences for the operator.
    pub warnings: Vec<String>,
}

impl<S: Store> Coordinator<S> {
    /// Begins with the policies of `sources`, those that were put over the API, and the state
    /// of the run before.
    ///
    /// # Errors
    /// Everything that is wrong with the policies.
    pub async fn start(parts: Parts<S>, sources: Vec<Source>) -> Result<Start<S>, Vec<Finding>> {
        let Parts {
            store,
            clock,
            entropy,
            opened,
        } = parts;
        let Opened { durable, state } = opened;
        let board = store.board();
        let own = PutPolicies::of(&state);
        let known = Box::pin(altering::at_start(board.as_ref(), own.clone())).await?;
        let candidates = candidates::begun(&known.put);
        let first_number = candidates.len() as u64;
        let in_force = InForce::load(sources, known.put.overlays(), candidates)?;
        let now = clock.now();
        let remembers = store.remembers();
        let predecessor = match (remembers, state.first_start, store.begins_after()) {
            (true, ..) => Predecessor::new(Time::ORIGIN, Evidence::NotNeeded),
            (false, false, _) => Predecessor::new(now, Evidence::OnRecord),
            (false, true, None) => Predecessor::new(now, Evidence::Presumed),
            (false, true, Some(epoch)) => Predecessor::new(now, Evidence::of_callers(epoch)),
        };
        let coordinator = Self {
            store,
            policies: Policies::new(in_force),
            generation: AtomicU32::new(1),
            entropy,
            permits: PermitCodec::new(state.permit_key.0, state.boot),
            predecessor,
            durable,
            events: Events::default(),
            watchers: Default::default(),
            expiries: Mutex::default(),
            telemetry: Default::default(),
            traffic: Default::default(),
            histories: Default::default(),
            candidates: AtomicU64::new(first_number),
            trials: Default::default(),
            halves: Default::default(),
            recorder: None,
            changing: tokio::sync::Mutex::default(),
            ordering: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            known: Mutex::new(known),
            replicas: Default::default(),
            clock,
        };
        if board.is_some() {
            let put = coordinator.put();
            Box::pin(coordinator.mirror(&own, &put, "taken at the start")).await;
            Box::pin(coordinator.catch_up_with_events()).await;
        }
        coordinator.telemetry.started(coordinator.clock.wall());
        coordinator
            .telemetry
            .policies_taken(coordinator.clock.wall());
        // What the store has of them is newer than what this replica had written down.
        let mut warnings = match remembers {
            true => Vec::new(),
            false => coordinator.restore(&state, now).await,
        };
        warnings.extend(
            coordinator
                .policies
                .in_force()
                .candidates
                .iter()
                .filter_map(|it| it.warning()),
        );
        coordinator.hand_over(Event {
            sequence: 0,
            time: coordinator.clock.wall(),
            kind: EventKind::Started,
            namespace: String::new(),
            dependency: String::new(),
            states: None,
            epoch: 0,
            detail: started(&state),
            owner: String::new(),
            teller: Default::default(),
        });
        Ok(Start {
            coordinator,
            warnings,
        })
    }

    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    async fn restore(&self, state: &Restored, now: Time) -> Vec<String> {
        let mut warnings = Vec::new();
        for (key, kept) in &state.breakers {
            let checkpoint = checkpoint(kept);
            let held_until = kept.hold.map(|hold| now + Nanos::from(hold.left));
            let restored = self
                .restore_record(key, now, |record| {
                    *record = operate::restore(&checkpoint, now);
                    if let Some(until) = held_until {
                        record.hold_until(until);
                    }
                })
                .await;
            match restored {
                Ok(id) => self.note_expiry(held_until, id),
                Err(refusal) => warnings.push(format!(
                    "the open breaker or the hold of `{}` is not restored: {refusal}",
                    key.name
                )),
            }
        }
        for (key, kept) in &state.overrides {
            let order = order(kept, now);
            let expires = order.expires;
            let restored = self
                .restore_record(key, now, |record| {
                    record.put_order(order.clone());
                    record.breaker.past_mut().cause = Cause::Override;
                })
                .await;
            match restored {
                Ok(id) => self.note_expiry(expires, id),
                Err(refusal) => {
                    warnings.push(format!(
                        "the override of `{}` is not restored: {refusal}",
                        key.name
                    ));
                }
            }
        }
        if state.rolled_back {
            warnings.push(
                "the data directory is older than what was acknowledged: its newest writes are lost"
                    .to_owned(),
            );
        }
        warnings
    }

    async fn restore_record(
        &self,
        key: &durable::Key,
        now: Time,
        mut change: impl FnMut(&mut Record) + Send,
    ) -> Result<crate::permit::DependencyId, super::Refusal> {
        let key = Key {
            namespace: &key.namespace,
            dependency: &key.name,
        };
        let id = self.id(key);
        self.transact(id, key, now, by_store, |slot| {
            change(&mut slot.record);
            // A candidate begins beside what was restored, with the next that happens.
            slot.put_shadow(None);
            slot.generation = slot.generation.wrapping_sub(1);
        })
        .await?;
        Ok(id)
    }
}

/// What the data directory keeps of a breaker and a hold.
pub(super) fn kept_of(record: &Record, clock: &Clock, now: Time) -> durable::BreakerCheckpoint {
    let checkpoint = operate::checkpoint(record, now);
    durable::BreakerCheckpoint {
        phase: match checkpoint.phase {
            Phase::Closed => durable::BreakerPhase::Closed,
            Phase::Open => durable::BreakerPhase::Open,
            Phase::HalfOpen => durable::BreakerPhase::HalfOpen,
        },
        epoch: checkpoint.epoch,
        trips: checkpoint.level,
        open: durable::TimeLeft {
            left: checkpoint.left.into(),
            at: clock.wall(),
        },
        hold: (now < record.held_until()).then(|| durable::TimeLeft {
            left: now.until(record.held_until()).into(),
            at: clock.wall(),
        }),
        usual: checkpoint.usual.map(|usual| durable::Health {
            per_kilosecond: usual.per_kilosecond,
            latency_ns: usual.latency.0,
            failing_ppm: usual.failing_ppm,
        }),
    }
}

fn checkpoint(kept: &durable::BreakerCheckpoint) -> Checkpoint {
    Checkpoint {
        phase: match kept.phase {
            durable::BreakerPhase::Closed => Phase::Closed,
            durable::BreakerPhase::Open => Phase::Open,
            durable::BreakerPhase::HalfOpen => Phase::HalfOpen,
        },
        epoch: kept.epoch,
        level: kept.trips,
        trips: 0,
        left: Nanos::from(kept.open.left),
        usual: kept.usual.map(|usual| Health {
            per_kilosecond: usual.per_kilosecond,
            latency: Nanos(usual.latency_ns),
            failing_ppm: usual.failing_ppm,
        }),
    }
}

fn order(kept: &durable::Override, now: Time) -> Override {
    Override {
        kind: match kept.kind {
            durable::OverrideKind::ForceOpen => OverrideKind::ForceOpen,
            durable::OverrideKind::ForceClosed => OverrideKind::ForceClosed,
        },
        owner: kept.owner.clone(),
        reason: kept.reason.clone(),
        set_at: clock::of_wall(kept.set_at),
        expires: kept.expires.map(|expires| now + Nanos::from(expires.left)),
    }
}

fn started(state: &Restored) -> String {
    let kept = || state.breakers.iter().map(|(_, kept)| kept);
    let breakers = kept().filter(|kept| kept.phase != durable::BreakerPhase::Closed);
    let holds = kept().filter(|kept| kept.hold.is_some());
    format!(
        "boot {}; restored: breakers {}, holds {}, overrides {}",
        state.boot,
        breakers.count(),
        holds.count(),
        state.overrides.len()
    )
}
