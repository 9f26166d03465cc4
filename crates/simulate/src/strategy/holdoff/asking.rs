//! Questions: out to the coordinator, worked on there, and back; or lost, and then answered by the
//! client itself when its patience ends.

use holdoff_decision::{Ask, MadeUnder, Nanos, Previous, Priority, Question};

use super::{Fleet, Made, Reply, coordinator::Coordinator, session::Link};
use crate::{queue::Kind, strategy::alone::Decision, world::Ground};

impl Fleet {
    /// Asks about the attempt, or whether what was granted for it still holds.
    pub(super) fn ask(
        &mut self,
        ground: &mut Ground<'_>,
        index: usize,
        confirms: bool,
    ) -> Decision {
        let (place, who) = self.place(ground, index);
        let now = ground.now;
        let attempt = ground.operations[index].attempt();
        let link = self.link(who, now);
        let session = &mut self.sessions[who];
        if session.hears_from == u64::MAX {
            // Its first question subscribes; what is pushed comes with the answer.
            session.hears_from = now + 2 * (self.way.0 + self.way.1);
        }
        if session.is_shut(now) || matches!(link, Link::Away(_)) {
            return match confirms {
                true => self.unconfirmed(ground, index),
                false => self.decide_alone(ground, index),
            };
        }
        let pursuit = &mut self.pursuits[place];
        pursuit.asked_at = now;
        pursuit.asks_to_confirm = confirms;
        ground.measure.counts.questions += 1;
        let way = &ground.scenario.coordinator;
        let stream = &mut self.ways[ground.operations[index].client as usize];
        let hop = stream.between(way.least.nanos(), way.most.nanos());
        let lost = stream.chance(way.loss);
        if attempt > 1 {
            // Failures never arrive ahead of the successes around them.
            self.report_now(ground, who, hop);
        }
        match lost || matches!(link, Link::Cut(_)) {
            true => ground.plan(way.patience.nanos(), Kind::Late, index),
            false => ground.plan(hop, Kind::Question, index),
        }
        Decision::Pending
    }

    /// A question reaches the coordinator.
    pub fn question(&mut self, ground: &mut Ground<'_>, index: usize) {
        let (place, who) = self.place(ground, index);
        let now = ground.now;
        let way = &ground.scenario.coordinator;
        let late_at = self.pursuits[place].asked_at + way.patience.nanos();
        if self.coordinator.is_away() {
            return ground.plan(late_at.saturating_sub(now), Kind::Late, index);
        }
        let done_at = self.coordinator.take_up(now);
        let ask = self.worded(ground, index);
        let record = self.layer_of(who);
        let answer = self.coordinator.ask(record, &ask, now, &mut ground.measure);
        let pursuit = &mut self.pursuits[place];
        pursuit.reply = Some(Reply {
            verdict: answer.verdict,
            epoch: answer.epoch,
            boot: self.coordinator.boot(),
        });
        // It has been told, whether the answer arrives or not.
        pursuit.untold = pursuit.asks_to_confirm && pursuit.untold;
        if let Made::Lone { permit, .. } = pursuit.made {
            let outcome = pursuit.outcome;
            self.report_here(who, &permit, &outcome, now);
        }
        let stream = &mut self.ways[ground.operations[index].client as usize];
        let hop = stream.between(way.least.nanos(), way.most.nanos());
        let arrives = done_at + hop;
        match stream.chance(way.loss) || arrives > late_at {
            true => ground.plan(late_at.saturating_sub(now), Kind::Late, index),
            false => ground.plan(arrives - now, Kind::Answer, index),
        }
    }

    /// As the coordinator reads it.
    fn worded(&self, ground: &Ground<'_>, index: usize) -> Ask {
        let (place, who) = self.place(ground, index);
        let pursuit = &self.pursuits[place];
        let attempt = ground.operations[index].attempt();
        let boot = self.coordinator.boot();
        let made_under = match pursuit.made {
            Made::Fleet(permit, of) if of == boot => MadeUnder::Permit(permit),
            Made::Fleet(permit, _) => MadeUnder::EarlierRun(permit),
            Made::OnState(epoch) => MadeUnder::Epoch(epoch),
            Made::Lone { begun_in, .. } => MadeUnder::Epoch(begun_in),
            Made::Nothing => MadeUnder::Unknown,
        };
        let question = match (made_under, pursuit.asks_to_confirm, attempt) {
            (MadeUnder::Permit(permit), true, _) => Question::Confirm(permit),
            (_, _, 1) => Question::First,
            (made_under, _, attempt) => Question::Retry {
                attempt,
                previous: Previous {
                    made_under,
                    outcome: pursuit.outcome,
                },
            },
        };
        Ask {
            question,
            caller: Coordinator::caller(who),
            service: self.layer_of(who) as u64,
            call: Some(pursuit.name),
            idempotent: true,
            time_left: ground.time_left(index).map(Nanos),
            priority: Priority::Normal,
            cost: 1,
        }
    }

    /// An answer reaches the client.
    pub fn answer(&mut self, ground: &mut Ground<'_>, index: usize) -> Decision {
        let (place, who) = self.place(ground, index);
        let now = ground.now;
        self.sessions[who].answered();
        let pursuit = &mut self.pursuits[place];
        let was_granted = pursuit.asks_to_confirm;
        // An answer is planned together with its reply.
        let Some(reply) = pursuit.reply.take() else {
            return self.late(ground, index);
        };
        match reply.verdict {
            Ok(grant) => {
                pursuit.made = Made::Fleet(grant.permit, reply.boot);
                pursuit.epoch = reply.epoch;
                pursuit.confirms = grant.confirm && !grant.delay.is_zero();
                if let Some(lone) = &mut self.sessions[who].lone {
                    lone.forget();
                }
                let delay = grant.delay.0.saturating_sub(pursuit.held.for_so_long());
                match delay {
                    0 => Decision::Go,
                    delay => Decision::After(delay),
                }
            }
            Err(denial) => {
                if was_granted {
                    // A confirmation that is denied has made the permit void.
                    pursuit.made = Made::Nothing;
                }
                let lone = self.sessions[who].lone(now);
                lone.remember(denial.reason, denial.retry_after, now);
                let waits = denial.reason != holdoff_decision::DenialReason::PushbackTooLong;
                let retry_after = denial.retry_after.filter(|_| waits);
                self.denied(ground, index, retry_after, was_granted)
            }
        }
    }

    /// No answer came in time.
    pub fn late(&mut self, ground: &mut Ground<'_>, index: usize) -> Decision {
        let (place, who) = self.place(ground, index);
        let client = ground.operations[index].client as usize;
        let unit = self.ways[client].unit();
        self.sessions[who].unanswered(unit, ground.now);
        let pursuit = &mut self.pursuits[place];
        pursuit.reply = None;
        if matches!(pursuit.made, Made::OnState(_)) {
            // It may have arrived, and nothing tells an outcome without a permit from another.
            pursuit.untold = false;
        }
        match pursuit.asks_to_confirm {
            true => self.unconfirmed(ground, index),
            false => self.decide_alone(ground, index),
        }
    }
}
