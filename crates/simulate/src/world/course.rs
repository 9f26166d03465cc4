//! The course of an operation: may this attempt go, go, how did it end, and then?
//!
//! Where a call passes several services, each of them decides about its own attempts; one that
//! gives up is a failed attempt of the one above.

use super::{Mind, World};
use crate::{
    measure::End,
    operation::{Operation, Phase},
    queue::Kind,
    strategy::alone::{Asked, Decision, Ended},
};

impl World<'_> {
    /// One more operation arrives by itself.
    pub(super) fn arrive(&mut self) {
        let ground = &mut self.ground;
        let clients = f64::from(ground.scenario.clients);
        let client = (ground.arrivals.unit() * clients) as u32;
        ground.plan_arrival();
        let index = self.take_place(client);
        self.begin(index);
    }

    pub(super) fn take_place(&mut self, client: u32) -> usize {
        let ground = &mut self.ground;
        match ground.free.pop() {
            Some(index) => {
                ground.operations[index as usize].client = client;
                index as usize
            }
            None => {
                ground.operations.push(Operation::idle(client));
                ground.operations.len() - 1
            }
        }
    }

    pub(super) fn begin(&mut self, index: usize) {
        self.enter(index);
        self.seek(index, false);
    }

    /// The operation exists from now on, at its first attempt.
    pub(super) fn enter(&mut self, index: usize) {
        let now = self.ground.now;
        self.ground.measure.operation_began(now);
        let operation = &mut self.ground.operations[index];
        operation.began = now;
        operation.layer = 0;
        operation.attempts[0] = 1;
        operation.last = End::Served;
        if let Mind::Fleet(fleet) = &mut self.mind {
            fleet.begin(index, 0);
        }
    }

    /// A wait is over.
    pub(super) fn act(&mut self, index: usize) {
        match self.ground.operations[index].phase {
            Phase::WaitsToGo => {
                let decision = match &mut self.mind {
                    Mind::Alone(_) => Decision::Go,
                    Mind::Fleet(fleet) => fleet.ready(&mut self.ground, index),
                };
                self.follow(index, decision);
            }
            Phase::WaitsToAsk => self.seek(index, true),
            Phase::WaitsToBegin => {
                *self.ground.operations[index].attempt_mut() = 1;
                if let Mind::Fleet(fleet) = &mut self.mind {
                    fleet.begin(index, 0);
                }
                self.seek(index, false);
            }
            Phase::Idle | Phase::Asks | Phase::Calls => {}
        }
    }

    /// Asks whether the attempt may go.
    pub(super) fn seek(&mut self, index: usize, again: bool) {
        let operation = self.ground.operations[index];
        let decision = match &mut self.mind {
            Mind::Alone(minds) => {
                let asked = Asked {
                    who: self.ground.who(operation.client, operation.layer),
                    attempt: operation.attempt(),
                    again,
                    last: operation.last,
                    now: self.ground.now,
                };
                minds.ask(&asked, &mut self.ground.choice[operation.client as usize])
            }
            Mind::Fleet(fleet) => fleet.seek(&mut self.ground, index),
        };
        self.follow(index, decision);
    }

    pub(super) fn follow(&mut self, index: usize, decision: Decision) {
        let (wait, phase) = match decision {
            Decision::Go => return self.proceed(index),
            Decision::Pending => {
                self.ground.operations[index].phase = Phase::Asks;
                return;
            }
            Decision::Refused => {
                self.ground.measure.counts.refused += 1;
                return self.give_up(index);
            }
            Decision::After(wait) => (wait, Phase::WaitsToGo),
            Decision::AskAfter(wait) => (wait, Phase::WaitsToAsk),
        };
        if self
            .ground
            .time_left(index)
            .is_some_and(|left| wait >= left)
        {
            return self.give_up_all(index);
        }
        self.ground.operations[index].phase = phase;
        self.ground.plan(wait, Kind::Act, index);
    }

    /// The attempt goes: to the next service on the way, or as a call.
    fn proceed(&mut self, index: usize) {
        let layers = self.ground.scenario.operation.layers;
        let operation = &mut self.ground.operations[index];
        if u32::from(operation.layer) + 1 >= layers {
            return self.ground.send(index);
        }
        operation.layer += 1;
        *operation.attempt_mut() = 1;
        operation.last = End::Served;
        let layer = operation.layer;
        if let Mind::Fleet(fleet) = &mut self.mind {
            fleet.begin(index, layer);
        }
        self.seek(index, false);
    }

    pub(super) fn call_ended(&mut self, index: usize) {
        let operation = self.ground.operations[index];
        let now = self.ground.now;
        self.ground
            .measure
            .call_ended(operation.sent, now, operation.last);
        if operation.last != End::Served {
            return self.attempt_failed(index);
        }
        for layer in (0..=operation.layer).rev() {
            self.ground.operations[index].layer = layer;
            self.tell_end(index);
        }
        self.finish(index, true);
    }

    /// Tells the strategy how the attempt ended.
    fn tell_end(&mut self, index: usize) {
        let operation = self.ground.operations[index];
        let client = operation.client as usize;
        match &mut self.mind {
            Mind::Alone(minds) => {
                let ended = Ended {
                    who: self.ground.who(operation.client, operation.layer),
                    attempt: operation.attempt(),
                    end: operation.last,
                    sent: operation.sent,
                    now: self.ground.now,
                };
                let opened = minds.ended(&ended, &mut self.ground.choice[client]);
                if opened {
                    self.note_opened(client);
                }
            }
            Mind::Fleet(fleet) => fleet.ended(&mut self.ground, index),
        }
    }

    fn note_opened(&mut self, client: usize) {
        let ground = &mut self.ground;
        let counts = ground
            .measure
            .first_begin()
            .is_some_and(|begin| ground.now >= begin);
        if counts && !std::mem::replace(&mut ground.has_opened[client], true) {
            ground.measure.client_opened(ground.now);
        }
    }

    pub(super) fn attempt_failed(&mut self, index: usize) {
        self.tell_end(index);
        let scenario = self.ground.scenario;
        let operation = &mut self.ground.operations[index];
        let persistent = scenario.operation.persistent;
        let is_last = !persistent && operation.attempt() >= scenario.operation.max_attempts;
        if is_last {
            if let Mind::Fleet(fleet) = &mut self.mind {
                fleet.tell_last(&mut self.ground, index);
            }
            return self.give_up(index);
        }
        let attempt = operation.attempt_mut();
        *attempt = attempt.saturating_add(1);
        self.seek(index, false);
    }

    /// The service that decides gives its call up: a failed attempt of the one above.
    fn give_up(&mut self, index: usize) {
        let operation = &mut self.ground.operations[index];
        if operation.layer > 0 {
            let retried = operation.attempt() > 1;
            operation.layer -= 1;
            operation.last = End::GivenUpBelow { retried };
            return self.attempt_failed(index);
        }
        if !self.ground.scenario.operation.persistent {
            return self.finish(index, false);
        }
        // It must be done: as a new call, after a while.
        let wait = match &mut self.mind {
            Mind::Alone(_) => self.ground.scenario.baselines.cap.nanos(),
            Mind::Fleet(fleet) => fleet.longest_delay(),
        };
        let client = self.ground.operations[index].client as usize;
        let wait = self.ground.choice[client].between(0, wait);
        self.ground.operations[index].phase = Phase::WaitsToBegin;
        self.ground.plan(wait, Kind::Act, index);
    }

    /// There is no time left for any of the services on the way.
    fn give_up_all(&mut self, index: usize) {
        if let Mind::Fleet(fleet) = &mut self.mind {
            fleet.tell_last(&mut self.ground, index);
        }
        self.finish(index, false);
    }

    pub(super) fn finish(&mut self, index: usize, succeeded: bool) {
        let ground = &mut self.ground;
        let operation = &mut ground.operations[index];
        let (began, client) = (operation.began, operation.client);
        operation.phase = Phase::Idle;
        operation.move_on();
        ground.measure.operation_ended(began, ground.now, succeeded);
        match ground.scenario.traffic {
            crate::scenario::Traffic::Closed { .. } => ground.think(client),
            crate::scenario::Traffic::Open { .. } => ground.free.push(index as u32),
        }
    }
}
