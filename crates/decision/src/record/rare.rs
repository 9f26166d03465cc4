//! What most dependencies never need, or only for the seconds in which something happens: in
//! one allocation that is made on use and freed when nothing is left in it.
//!
//! A record has one pointer for all of this. A first attempt on a closed breaker and its
//! success touch none of it, unless the policy limits the rate. It is freed by
//! [`Record::advance`] only, so that a step may put in and take out as it likes.

use super::{Change, Override, Record, replica::Replica};
use crate::{
    Nanos, Time,
    bytes::fields,
    calendar::Calendar,
    policy,
    ramp::Ramp,
    rate::{Left, Rate, Room},
    replay::{Key, Remembered, Replays},
};

/// Unreported permits that count in one second under the adaptive detector. Who was silent
/// is not known, so all of them are taken for one instance: one that dies with many calls
/// out must not trip the fleet, and a fleet that hangs trips within three seconds.
const SILENT_PER_SECOND: u32 = 2;
/// What is over is kept for so long, since a clock may go back.
const CLOCK_MAY_GO_BACK: Nanos = Nanos::from_secs(60);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// While retries are planned.
    pub calendar: Option<Box<Calendar>>,
    /// While the dependency recovers.
    pub ramp: Option<Box<Ramp>>,
    /// No call goes before this time: the dependency asked the fleet to wait.
    pub held_until: Time,
    pub order: Option<Box<Override>>,
    /// Where callers name their calls.
    pub replays: Option<Box<Replays>>,
    /// Until they are taken.
    changes: Vec<Change>,
    /// Under a policy that limits the rate.
    pub rate: Rate,
    pub silence: SilentSecond,
    /// Where several replicas have this record.
    pub replica: Option<Box<Replica>>,
}

/// The second of the last silence, and how much of it has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SilentSecond {
    second: u32,
    counted: u32,
}

fields!(SilentSecond { second, counted });

impl Rare {
    fn is_empty(&self) -> bool {
        self.calendar.is_none()
            && self.ramp.is_none()
            && self.held_until == Time::ORIGIN
            && self.order.is_none()
            && self.replays.is_none()
            && self.changes.is_empty()
            && self.rate.is_unused()
            && self.silence == SilentSecond::default()
            && self.replica.is_none()
    }
}

impl Record {
    pub fn calendar(&self) -> Option<&Calendar> {
        self.rare.as_ref()?.calendar.as_deref()
    }

    pub fn ramp(&self) -> Option<&Ramp> {
        self.rare.as_ref()?.ramp.as_deref()
    }

    pub(crate) fn ramp_mut(&mut self) -> Option<&mut Ramp> {
        self.rare.as_mut()?.ramp.as_deref_mut()
    }

    /// No call goes before this time: the dependency asked the fleet to wait.
    pub fn held_until(&self) -> Time {
        (self.rare.as_ref()).map_or(Time::ORIGIN, |rare| rare.held_until)
    }

    /// Replaces a hold; none at the origin of time. Notes nothing.
    pub fn hold_until(&mut self, until: Time) {
        if until != self.held_until() {
            self.rare_mut().held_until = until;
        }
    }

    /// The operator's order, whether it has ended or not.
    pub fn order(&self) -> Option<&Override> {
        self.rare.as_ref()?.order.as_deref()
    }

    /// Replaces the operator's order. Notes nothing and leaves the breaker as it is: see
    /// [`set_override`](crate::operate::set_override).
    pub fn put_order(&mut self, order: Override) {
        self.rare_mut().order = Some(Box::new(order));
    }

    pub(crate) fn take_order(&mut self) -> Option<Box<Override>> {
        self.rare.as_mut()?.order.take()
    }

    /// What is remembered of a question.
    pub(crate) fn remembered(&self, key: &Key, now: Time) -> Option<Remembered> {
        (self.rare.as_ref()?.replays.as_ref()?).find(key, now)
    }

    pub(crate) fn remember(&mut self, key: Key, remembered: Remembered, now: Time) {
        let replays = self.rare_mut().replays.get_or_insert_default();
        replays.remember(key, remembered, now);
    }

    /// What was remembered since, for another record of the same dependency.
    pub(super) fn remembered_since(&self, since: Time) -> Vec<(Key, Remembered, Time)> {
        let replays = (self.rare.as_ref()).and_then(|rare| rare.replays.as_ref());
        replays.map_or_else(Vec::new, |replays| replays.since(since).collect())
    }

    /// Forgets the grants of a permit that is void.
    pub(crate) fn forget_permit(&mut self, serial: u64) {
        if let Some(replays) = (self.rare.as_mut()).and_then(|rare| rare.replays.as_mut()) {
            replays.forget_permit(serial);
        }
    }

    /// What has happened since this was last called.
    pub fn take_changes(&mut self) -> Vec<Change> {
        (self.rare.as_mut()).map_or_else(Vec::new, |rare| std::mem::take(&mut rare.changes))
    }

    /// As if they had not been taken: they are told before what happens next.
    pub fn put_back_changes(&mut self, mut changes: Vec<Change>) {
        if !changes.is_empty() {
            let rare = self.rare_mut();
            changes.append(&mut rare.changes);
            rare.changes = changes;
        }
    }

    pub fn has_changes(&self) -> bool {
        (self.rare.as_ref()).is_some_and(|rare| !rare.changes.is_empty())
    }

    pub(crate) fn note(&mut self, change: Change) {
        self.rare_mut().changes.push(change);
    }

    /// When the rate limit has room. Takes nothing.
    pub(crate) fn room(&self, limit: &policy::Rate, caller: u64, cost: u32, now: Time) -> Room {
        match &self.rare {
            Some(rare) => rare.rate.room(limit, caller, cost, now),
            None => Rate::default().room(limit, caller, cost, now),
        }
    }

    /// Takes what [`Self::room`] looked at.
    pub(crate) fn take_room(&mut self, limit: &policy::Rate, caller: u64, cost: u32, now: Time) {
        self.rare_mut().rate.take(limit, caller, cost, now);
    }

    /// What the rate limit has left.
    pub fn rate_left(&self, limit: &policy::Rate, caller: u64, now: Time) -> Left {
        match &self.rare {
            Some(rare) => rare.rate.left(limit, caller, now),
            None => Rate::default().left(limit, caller, now),
        }
    }

    /// Takes what was used without being asked for, also where there is no room for it: those
    /// that come later wait.
    pub fn charge_rate(&mut self, limit: &policy::Rate, caller: u64, cost: u32, now: Time) {
        self.take_room(limit, caller, cost, now);
    }

    /// Gives back what was taken and not used.
    pub fn refund_rate(&mut self, limit: &policy::Rate, caller: u64, cost: u32) {
        if let Some(rare) = &mut self.rare {
            rare.rate.give_back(limit, caller, cost);
        }
    }

    /// Whether all of the rate limit's burst is free.
    pub(crate) fn has_all_room(&self, now: Time) -> bool {
        (self.rare.as_ref()).is_none_or(|rare| rare.rate.is_idle(now))
    }

    /// How many of these permits, unreported at `ended`, are evidence for the adaptive
    /// detector.
    pub(super) fn count_silent(&mut self, permits: u32, ended: Time) -> u32 {
        let silence = &mut self.rare_mut().silence;
        let second = second_of(ended);
        if second != silence.second {
            *silence = SilentSecond { second, counted: 0 };
        }
        let counts = permits.min(SILENT_PER_SECOND.saturating_sub(silence.counted));
        silence.counted += counts;
        counts
    }

    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Forgets what is over, and frees the allocation when nothing is left in it. Under a
    /// `limit` the state of the rate stays: the next call needs it.
    pub(super) fn forget_rare(&mut self, limit: Option<&policy::Rate>, now: Time) {
        let Some(rare) = &mut self.rare else {
            return;
        };
        if let Some(replays) = &mut rare.replays {
            replays.forget_old(now);
            if replays.is_empty() {
                rare.replays = None;
            }
        }
        if let Some(replica) = &mut rare.replica {
            replica.forget_old(now);
        }
        if self.touched.since(rare.held_until) >= CLOCK_MAY_GO_BACK {
            rare.held_until = Time::ORIGIN;
        }
        if limit.is_none() && rare.rate.is_idle(self.touched) {
            rare.rate = Rate::default();
        }
        // No permit can end in that second any more.
        if self.tickets.are_settled() && second_of(self.touched) > rare.silence.second {
            rare.silence = SilentSecond::default();
        }
        if rare.is_empty() {
            self.rare = None;
        }
    }
}

fn second_of(at: Time) -> u32 {
    (at.0 / 1_000_000_000) as u32
}
