//! A client: one call at a time, asked for or made on pushed state. What it decides by itself
//! is here; what becomes of it is the world's.

use holdoff_decision::{
    Grant, Outcome, Tally, Time,
    standing::{FirstAttempts, Standing},
};

use super::{
    draws::Draws,
    messages::{Asking, Made, Ticket},
    scenario::Scenario,
};

#[derive(Clone, Debug)]
pub struct Client {
    /// One higher with each process that takes its place.
    pub life: u32,
    pub instance: u64,
    /// Makes first attempts on the pushed state.
    pub session: bool,
    /// Comes back when it was told to, instead of with its next call.
    pub patient: bool,
    /// Its calls have ids, so that a repeated question is known for one.
    pub has_ids: bool,
    pub pauses_until: Time,
    pub doing: Doing,
    /// Rises with everything it does: what belongs to an earlier step is void.
    pub step: u64,
    pub call: Call,
    pub pushed: Option<Pushed>,
    pub tally: Tally,
    pub sequence: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    pub id: u64,
    pub attempt: u32,
    pub idempotent: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Pushed {
    pub number: u64,
    pub standing: Standing,
    pub until: Time,
}

#[derive(Clone, Copy, Debug)]
pub enum Doing {
    /// Between calls, or until it may ask the same again.
    Waits {
        again: Option<Asking>,
    },
    Asks {
        asking: Asking,
        sends: u32,
    },
    /// Granted: until the delay is over.
    Holds {
        ticket: Ticket,
        grant: Grant,
        /// When it gives its probe up.
        gives_up: Option<Time>,
        confirmed: bool,
    },
    Calls {
        made: Made,
        outcome: Outcome,
    },
}

/// What a client does with a first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Asks,
    Goes { epoch: u64 },
    Refuses,
}

impl Client {
    pub fn new(at: usize, life: u32, scenario: &Scenario, draws: &mut Draws) -> Self {
        let process = at as u64 / scenario.clients_an_instance;
        Self {
            life,
            instance: 1 + process + (u64::from(life) << 32),
            session: draws.below(2) == 0,
            patient: draws.below(2) == 0,
            has_ids: draws.below(3) > 0,
            pauses_until: Time::ORIGIN,
            doing: Doing::Waits { again: None },
            step: 0,
            call: Call::default(),
            pushed: None,
            tally: Tally::default(),
            sequence: 0,
        }
    }

    /// Enters the next step.
    pub fn turn(&mut self, doing: Doing) -> u64 {
        self.doing = doing;
        self.step += 1;
        self.step
    }

    pub fn next_call(&mut self, draws: &mut Draws) {
        self.call = Call {
            id: self.call.id + 1,
            attempt: 1,
            idempotent: draws.below(4) > 0,
        };
    }

    pub fn hears(&mut self, number: u64, standing: Standing, now: Time) {
        if self.pushed.is_none_or(|pushed| pushed.number < number) {
            let until = now + standing.valid_for;
            self.pushed = Some(Pushed {
                number,
                standing,
                until,
            });
        }
    }

    pub fn way(&self, now: Time) -> Way {
        match self
            .pushed
            .filter(|pushed| self.session && now < pushed.until)
        {
            None => Way::Asks,
            Some(pushed) => match pushed.standing.first_attempts {
                FirstAttempts::Ask => Way::Asks,
                FirstAttempts::Refuse => Way::Refuses,
                FirstAttempts::Go => Way::Goes {
                    epoch: pushed.standing.epoch,
                },
            },
        }
    }
}
