//! Outcomes on their way to the coordinator, in batches: successes wait a little, failures do not.

use holdoff_decision::{Nanos, Outcome, OutcomeKind, Permit, Tally};

use super::{Fleet, Made, session::Link};
use crate::{
    queue::{Event, Kind},
    world::Ground,
};

/// A batch goes out so long after its first entry under a permit.
const LINGER: u64 = 10_000_000;
/// The shortest of what only tallies wait.
const TALLY_LINGER: u64 = 100_000_000;
/// The longest of what only tallies wait.
const TALLY_LINGER_MAX: u64 = 1_000_000_000;
/// A message that is lost on the way is sent again after so long.
const SENT_AGAIN_AFTER: u64 = 200_000_000;
/// Without a session, a report is tried again after so long.
const TRIED_AGAIN_AFTER: u64 = 1_000_000_000;

/// One outcome, or several that are counted together.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// A permit, and the run of the coordinator that gave it.
    Result(Permit, u32, Outcome),
    Tally(Tally),
    /// On pushed state, with a wait that was asked for.
    Pushback(u64, Outcome),
}

/// A batch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    who: usize,
    tally: Tally,
    items: Vec<Item>,
}

impl Report {
    /// Counted on a session that is gone: the coordinator may have had it, so that its starts are
    /// not counted again.
    fn starts_are_known(&mut self) {
        self.tally.first_attempts = 0;
        for item in &mut self.items {
            if let Item::Tally(tally) = item {
                tally.first_attempts = 0;
            }
        }
    }
}

fn is_empty(tally: &Tally) -> bool {
    let ended = [tally.successes, tally.failures, tally.timeouts];
    let others = [tally.throttled, tally.rejected, tally.first_attempts];
    ended.into_iter().chain(others).all(|count| count == 0)
}

/// One first attempt that ended so; nothing of how long it took.
pub fn count(tally: &mut Tally, outcome: &Outcome) {
    tally.first_attempts += 1;
    match outcome.kind {
        OutcomeKind::Success => tally.successes += 1,
        OutcomeKind::Failure | OutcomeKind::NotSent => tally.failures += 1,
        OutcomeKind::Timeout => tally.timeouts += 1,
        OutcomeKind::Throttled => tally.throttled += 1,
        OutcomeKind::Rejected => tally.rejected += 1,
        OutcomeKind::Ignored | OutcomeKind::Cancelled => {}
    }
}

impl Fleet {
    /// Notes how an attempt ended, for the next report.
    pub(super) fn report(
        &mut self,
        ground: &mut Ground<'_>,
        who: usize,
        made: Made,
        outcome: &Outcome,
    ) {
        let now = ground.now;
        let is_urgent = !matches!(
            outcome.kind,
            OutcomeKind::Success | OutcomeKind::Ignored | OutcomeKind::Cancelled
        );
        let linger = match made {
            Made::Nothing => return,
            Made::Lone { permit, .. } => return self.report_here(who, &permit, outcome, now),
            Made::Fleet(permit, boot) => {
                let item = Item::Result(permit, boot, *outcome);
                self.sessions[who].items.push(item);
                LINGER
            }
            Made::OnState(epoch) if outcome.pushback.is_some() => {
                self.sessions[who]
                    .items
                    .push(Item::Pushback(epoch, *outcome));
                0
            }
            Made::OnState(epoch) => {
                self.tally(who, epoch, outcome, now);
                let client = self.client_of(who);
                let way = &mut self.ways[client];
                way.between(TALLY_LINGER, TALLY_LINGER_MAX)
            }
        };
        let linger = if is_urgent { 0 } else { linger };
        let session = &mut self.sessions[who];
        // What only tallies wait for is not made later by one more of them.
        if session.due == 0 || now + linger < session.due {
            session.due = (now + linger).max(1);
            ground.queue.plan(session.due, Kind::Flush, who as u32, 0);
        }
    }

    fn tally(&mut self, who: usize, epoch: u64, outcome: &Outcome, now: u64) {
        let slow_after = self.policy.breaker.slow_after;
        let session = &mut self.sessions[who];
        if session.tally.epoch != epoch {
            let before = std::mem::take(&mut session.tally);
            if !is_empty(&before) {
                session.items.push(Item::Tally(before));
            }
            session.tally.epoch = epoch;
        }
        session.counts_since.get_or_insert(now);
        let tally = &mut session.tally;
        count(tally, outcome);
        let latency = outcome.latency.unwrap_or(Nanos::ZERO);
        let is_slow = !slow_after.is_zero() && latency >= slow_after;
        tally.slow += u32::from(is_slow);
        tally.latency_sum = tally.latency_sum.saturating_add(latency);
    }

    /// Something that was planned here: a report is due, or arrives.
    pub fn deliver(&mut self, ground: &mut Ground<'_>, event: &Event) {
        match event.kind {
            Kind::Flush => self.flush(ground, event.whose as usize),
            Kind::Report => self.take_report(ground, event.whose),
            Kind::Begin
            | Kind::Arrival
            | Kind::Act
            | Kind::Call
            | Kind::Done
            | Kind::Notice
            | Kind::Question
            | Kind::Answer
            | Kind::Late
            | Kind::Sudden => {}
        }
    }

    fn flush(&mut self, ground: &mut Ground<'_>, who: usize) {
        let due = self.sessions[who].due;
        if due == 0 || ground.now < due {
            // It went before a question, or is not due yet.
            return;
        }
        match self.link(who, ground.now) {
            Link::Up => {
                let way = &ground.scenario.coordinator;
                let client = self.client_of(who);
                let stream = &mut self.ways[client];
                let hop = stream.between(way.least.nanos(), way.most.nanos());
                self.report_now(ground, who, hop);
            }
            Link::Away(_) | Link::Cut(_) => self.try_again(ground, who),
        }
    }

    fn try_again(&mut self, ground: &mut Ground<'_>, who: usize) {
        let due = ground.now + TRIED_AGAIN_AFTER;
        self.sessions[who].due = due;
        ground.queue.plan(due, Kind::Flush, who as u32, 0);
    }

    /// Sends what there is to report.
    pub(super) fn report_now(&mut self, ground: &mut Ground<'_>, who: usize, hop: u64) {
        let session = &mut self.sessions[who];
        if session.due == 0 || !matches!(self.link(who, ground.now), Link::Up) {
            return;
        }
        let place = self.reports_free.pop().unwrap_or_else(|| {
            self.reports.push(Report::default());
            self.reports.len() as u32 - 1
        });
        let connected_at = self.connected_at(who, ground.now);
        let session = &mut self.sessions[who];
        session.due = 0;
        let report = &mut self.reports[place as usize];
        report.who = who;
        report.tally = std::mem::take(&mut session.tally);
        session.tally.epoch = report.tally.epoch;
        std::mem::swap(&mut report.items, &mut session.items);
        if session
            .counts_since
            .take()
            .is_some_and(|since| since < connected_at)
        {
            report.starts_are_known();
        }
        ground.measure.counts.reports += 1;
        let client = self.client_of(who);
        let lost = self.ways[client].chance(ground.scenario.coordinator.loss);
        let again = if lost { SENT_AGAIN_AFTER } else { 0 };
        ground
            .queue
            .plan(ground.now + hop + again, Kind::Report, place, 0);
    }

    /// A report reaches the coordinator.
    fn take_report(&mut self, ground: &mut Ground<'_>, place: u32) {
        let mut report = std::mem::take(&mut self.reports[place as usize]);
        let (who, now) = (report.who, ground.now);
        if self.coordinator.is_away() {
            report.starts_are_known();
            let session = &mut self.sessions[who];
            session.items.push(Item::Tally(report.tally));
            session.items.append(&mut report.items);
            self.try_again(ground, who);
        } else {
            self.coordinator.take_up(now);
            let (record, measure) = (self.layer_of(who), &mut ground.measure);
            // Tallies first: failures never arrive ahead of the successes around them.
            if !is_empty(&report.tally) {
                self.coordinator
                    .tally(record, &report.tally, who, now, measure);
            }
            for item in report.items.drain(..) {
                let it = &mut self.coordinator;
                match item {
                    Item::Tally(tally) => it.tally(record, &tally, who, now, measure),
                    Item::Result(permit, boot, outcome) => {
                        it.report(record, (&permit, boot), &outcome, who, now, measure);
                    }
                    Item::Pushback(epoch, outcome) => {
                        it.tell_in_vain(record, epoch, &outcome, who, now, measure);
                    }
                }
            }
        }
        // Its room is used again.
        self.reports[place as usize] = report;
        self.reports_free.push(place);
    }
}
