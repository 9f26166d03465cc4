//! While the store that replicas share is away: this replica's part of what the fleet may do, and
//! that it is told.
//!
//! The budget's part is the rule's own ([`holdoff_decision::alone`]). What a policy says by the
//! second, its rate and its calendar, is divided by the number of replicas: places that were
//! promised before count for each of them, so all together promise no slot beyond its capacity.

use std::{sync::Arc, time::Duration};

use holdoff_decision::{
    Policy, Record, Time,
    calendar::Pace,
    policy::{Calendar, Rate, RetryRate},
};

use super::{Actor, Coordinator, Event, EventKind};
use crate::store::{Run, Slot, Standing, Store};

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The policy under which one of so many replicas decides alone.
pub fn part_of(policy: &Policy, record: &Record, replicas: u32, now: Time) -> Policy {
    let parts = f64::from(replicas.max(1));
    let retry_rate = match (policy.calendar.retry_rate, record.pace(policy, now)) {
        (RetryRate::Off, _) | (_, None) => RetryRate::Off,
        (RetryRate::PerSecond(rate), _) => RetryRate::PerSecond(rate / parts),
        (RetryRate::Auto, Some(Pace::Fixed(micros) | Pace::Learned(micros))) => {
            RetryRate::PerSecond(micros as f64 / 1e6 / parts)
        }
    };
    Policy {
        rate: policy.rate.as_ref().map(|rate| Rate {
            per_second: rate.per_second / parts,
            burst: (rate.burst / replicas.max(1)).max(1),
            ..rate.clone()
        }),
        calendar: Calendar {
            retry_rate,
            ..policy.calendar.clone()
        },
        ..policy.clone()
    }
}

impl<S: Store> Coordinator<S> {
    /// Whether decisions are made without the shared store, and among how many replicas; `None`:
    /// there is no shared store.
    pub fn store_standing(&self) -> Option<Standing> {
        self.store.standing()
    }

    /// What is wrong with the shared store while it answers.
    pub fn store_troubles(&self) -> Vec<&'static str> {
        self.store.troubles()
    }

    /// Applies a rule; alone, under this replica's part of the policy.
    pub(super) fn within_part<R>(
        &self,
        slot: &mut Slot,
        now: Time,
        rule: impl FnOnce(&mut Slot) -> R,
    ) -> R {
        if slot.notes.run() != Run::Alone {
            return rule(slot);
        }
        let replicas = self.store.standing().map_or(1, |it| it.replicas);
        let part = Arc::new(part_of(&slot.policy, &slot.record, replicas, now));
        let whole = std::mem::replace(&mut slot.policy, part);
        let result = rule(slot);
        slot.policy = whole;
        result
    }

    /// Tells when this replica begins to decide alone and when it is one of the fleet again, for
    /// ever.
    pub async fn tell_standing(&self) {
        let mut was_away = false;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(standing) = self.store.standing() else {
                // In memory it cannot be away.
                return std::future::pending().await;
            };
            if standing.is_away != was_away {
                was_away = standing.is_away;
                self.tell_one(standing);
            }
        }
    }

    fn tell_one(&self, standing: Standing) {
        let nobody = Actor {
            owner: "",
            reason: "",
        };
        let (kind, detail) = match standing.is_away {
            true => (
                EventKind::StoreAway,
                format!(
                    "the shared store does not answer or takes no writes: this replica, one of {}, \
                     decides alone",
                    standing.replicas
                ),
            ),
            false => (
                EventKind::StoreBack,
                "the shared store is back: this replica decides with the others".to_owned(),
            ),
        };
        self.hand_over(Event {
            detail,
            ..self.event(kind, "", "", nobody)
        });
    }
}

#[cfg(test)]
mod tests {
    use holdoff_decision::Nanos;

    use super::*;

    const NOW: Time = Time(1_700_000_000_000_000_000);

    fn policy(retry_rate: RetryRate) -> Policy {
        Policy {
            rate: Some(Rate {
                per_second: 90.0,
                burst: 10,
                max_wait: Nanos::ZERO,
                per_caller: false,
            }),
            calendar: Calendar {
                retry_rate,
                ..Policy::default().calendar
            },
            ..Policy::default()
        }
    }

    #[test]
    fn the_parts_of_all_replicas_are_no_more_than_the_whole() {
        let record = Record::new(1, NOW);
        for replicas in [1, 2, 3, 10, 64] {
            let whole = policy(RetryRate::PerSecond(30.0));
            let part = part_of(&whole, &record, replicas, NOW);
            let sum = part.rate.unwrap().per_second * f64::from(replicas);
            assert!((sum - 90.0).abs() < 1e-9, "{sum}");
            let RetryRate::PerSecond(rate) = part.calendar.retry_rate else {
                panic!("{:?}", part.calendar.retry_rate);
            };
            assert!((rate * f64::from(replicas) - 30.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_rate_that_is_learned_is_divided_and_none_stays_none() {
        let record = Record::new(1, NOW);
        let part = part_of(&policy(RetryRate::Auto), &record, 4, NOW);
        // Where nothing is learned it is ten a second.
        assert_eq!(part.calendar.retry_rate, RetryRate::PerSecond(2.5));
        let off = part_of(&policy(RetryRate::Off), &record, 4, NOW);
        assert_eq!(off.calendar.retry_rate, RetryRate::Off);
    }

    #[test]
    fn what_is_not_by_the_second_stays_as_it_is() {
        let record = Record::new(1, NOW);
        let whole = policy(RetryRate::Off);
        let part = part_of(&whole, &record, 3, NOW);
        assert_eq!(
            (part.breaker, part.budget, part.retry),
            (whole.breaker, whole.budget, whole.retry)
        );
    }
}
