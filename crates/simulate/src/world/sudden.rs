//! What happens to the fleet all at once.

use super::{Mind, World};
use crate::{measure::End, operation::Phase, queue::Kind, scenario::Traffic, timeline::SuddenKind};

impl World<'_> {
    pub(super) fn happen(&mut self, which: u32) {
        let Some(sudden) = self.sudden.get(which as usize).copied() else {
            return;
        };
        let first = (sudden.share * f64::from(self.ground.scenario.clients)).ceil() as u32;
        match sudden.kind {
            SuddenKind::Restart => self.restart(first, sudden.within),
            SuddenKind::BreakSessions => self.break_sessions(first, sudden.within),
            SuddenKind::CoordinatorGoes => {
                if let Mind::Fleet(fleet) = &mut self.mind {
                    fleet.coordinator_goes(self.ground.now);
                }
            }
            SuddenKind::CoordinatorReturns { keeps_state } => {
                if let Mind::Fleet(fleet) = &mut self.mind {
                    fleet.coordinator_returns(&mut self.ground, keeps_state);
                }
            }
        }
    }

    /// The clients up to number `first` lose what they had in hand and what they knew, and have
    /// something to do again within a while.
    fn restart(&mut self, first: u32, within: u64) {
        for index in 0..self.ground.operations.len() {
            if self.ground.operations[index].client < first {
                self.lose(index);
            }
        }
        for client in 0..first {
            for layer in 0..self.ground.scenario.operation.layers {
                let who = self.ground.who(client, layer as u8);
                match &mut self.mind {
                    Mind::Alone(minds) => minds.forget(who),
                    Mind::Fleet(fleet) => fleet.forget(who),
                }
            }
            let wait = self.ground.life[client as usize].between(0, within);
            let index = match self.ground.scenario.traffic {
                Traffic::Closed { .. } => client as usize,
                Traffic::Open { .. } => self.take_place(client),
            };
            self.ground.operations[index].move_on();
            self.ground.plan(wait, Kind::Begin, index);
        }
    }

    /// What an operation had under way is lost, and the operation with it.
    fn lose(&mut self, index: usize) {
        let operation = self.ground.operations[index];
        if !operation.is_in_hand() {
            return;
        }
        self.cut_short(index);
        let now = self.ground.now;
        let operation = &mut self.ground.operations[index];
        operation.phase = Phase::Idle;
        operation.move_on();
        let began = operation.began;
        self.ground.measure.operation_ended(began, now, false);
        if matches!(self.ground.scenario.traffic, Traffic::Open { .. }) {
            self.ground.free.push(index as u32);
        }
    }

    /// A call that is under way never ends for its caller.
    fn cut_short(&mut self, index: usize) {
        let operation = self.ground.operations[index];
        if operation.phase == Phase::Calls {
            let now = self.ground.now;
            self.ground
                .measure
                .call_ended(operation.sent, now, End::Failed);
        }
    }

    /// The sessions of the clients up to number `first` break: each notices within a while, as a
    /// failed attempt of what it had in hand, or of something new.
    fn break_sessions(&mut self, first: u32, within: u64) {
        for index in 0..self.ground.operations.len() {
            let operation = self.ground.operations[index];
            let is_open = matches!(self.ground.scenario.traffic, Traffic::Open { .. });
            if operation.client >= first || (is_open && !operation.is_in_hand()) {
                continue;
            }
            // One that waits or asks has failed already.
            let fails = matches!(operation.phase, Phase::Idle | Phase::Calls);
            if !fails {
                continue;
            }
            self.cut_short(index);
            let wait = self.ground.life[operation.client as usize].between(0, within);
            let operation = &mut self.ground.operations[index];
            operation.move_on();
            if operation.phase == Phase::Calls {
                // Neither under way nor planned.
                operation.phase = Phase::Asks;
            }
            self.ground.plan(wait, Kind::Notice, index);
        }
    }

    /// A client notices that its session broke.
    pub(super) fn notice(&mut self, index: usize) {
        if !self.ground.operations[index].is_in_hand() {
            self.enter(index);
            if let Mind::Fleet(fleet) = &mut self.mind {
                fleet.made_on_session(&self.ground, index);
            }
        }
        let operation = &mut self.ground.operations[index];
        operation.sent = self.ground.now;
        operation.last = End::Failed;
        self.attempt_failed(index);
    }
}
