//! Grants that can be given again. A question whose answer was lost is asked again; the
//! second answer is the first one, less the time that has passed, and is charged once.
//!
//! Only grants are kept: a denial consumed nothing, so a repeated question is judged
//! afresh. Remembered for 10 s, at most 4,096 a dependency, the oldest going first.

mod bytes;

use std::collections::{BTreeMap, VecDeque};

use crate::{Nanos, Time, permit::Grant};

const KEPT_FOR: Nanos = Nanos::from_secs(10);
const KEPT_MAX: usize = 4_096;

/// What makes two questions the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub caller: u64,
    pub about: About,
    pub attempt: u32,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A call, by its id.
    Call(u64),
    /// A hedge of a call.
    Hedge(u64),
    /// The attempt that followed a permit, by its serial.
    After(u64),
    /// The confirmation of a permit.
    Confirmation(u64),
}

/// What is remembered of a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Remembered {
    Granted(Grant),
    /// It was denied, but the outcome that it carried was counted.
    Counted,
}

/// The answers of the last 10 s.
#[derive(Clone, Debug, Default)]
pub struct Replays {
    answers: BTreeMap<Key, (Time, Remembered)>,
    order: VecDeque<(Time, Key)>,
}

impl Replays {
    pub fn find(&self, key: &Key, now: Time) -> Option<Remembered> {
        let (at, remembered) = self.answers.get(key)?;
        (now.since(*at) < KEPT_FOR).then_some(*remembered)
    }

    pub fn remember(&mut self, key: Key, remembered: Remembered, now: Time) {
        self.forget_old(now);
        if self.order.len() >= KEPT_MAX {
            self.forget_oldest();
        }
        self.answers.insert(key, (now, remembered));
        self.order.push_back((now, key));
    }

    /// What was remembered at `since` or later, the oldest first.
    pub fn since(&self, since: Time) -> impl Iterator<Item = (Key, Remembered, Time)> {
        let newer = self.order.iter().filter(move |(at, _)| *at >= since);
        newer.filter_map(|(at, key)| {
            let (newest, remembered) = self.answers.get(key)?;
            (newest == at).then_some((*key, *remembered, *at))
        })
    }

    /// Forgets the grants of a permit that is void.
    pub fn forget_permit(&mut self, serial: u64) {
        self.answers.retain(|_, (_, remembered)| match remembered {
            Remembered::Granted(grant) => grant.permit.serial != serial,
            Remembered::Counted => true,
        });
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn forget_old(&mut self, now: Time) {
        while self
            .order
            .front()
            .is_some_and(|(at, _)| now.since(*at) >= KEPT_FOR)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            && self
                .answers
                .get(&key)
                .is_some_and(|(newest, _)| *newest == at)
        {
            self.answers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call: u64) -> Key {
        Key {
            caller: 1,
            about: About::Call(call),
            attempt: 1,
        }
    }

    #[test]
    fn an_answer_is_remembered_for_ten_seconds() {
        let mut replays = Replays::default();
        replays.remember(key(1), Remembered::Counted, Time(0));
        let last = Time(9_999_999_999);
        assert_eq!(replays.find(&key(1), last), Some(Remembered::Counted));
        assert_eq!(replays.find(&key(1), Time(10_000_000_000)), None);
        replays.forget_old(Time(10_000_000_000));
        assert!(replays.is_empty());
    }

    #[test]
    fn the_memory_is_bounded_and_the_oldest_goes_first() {
        let mut replays = Replays::default();
        for call in 0..KEPT_MAX as u64 + 1 {
            replays.remember(key(call), Remembered::Counted, Time(call));
        }
        assert_eq!(replays.answers.len(), KEPT_MAX);
        assert_eq!(replays.find(&key(0), Time(5000)), None);
    }
}
