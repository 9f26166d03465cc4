//! What goes over the network, and what happens in a world.

use holdoff_decision::{Denial, Grant, Nanos, Outcome, Permit, Tally, Time, standing::Standing};

use super::{scenario::Fault, truth::Token};

/// A permit as a client holds it: bytes that only the run and the key which made them can read.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub permit: Permit,
    pub run: u64,
    /// Rises where a restart has lost the key.
    pub key: u64,
}

/// What an attempt was made on.
#[derive(Clone, Copy, Debug)]
pub enum Made {
    Ticket(Ticket),
    Pushed { epoch: u64 },
}

#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    First,
    Retry {
        attempt: u32,
        made: Made,
        outcome: Outcome,
    },
    Confirm(Ticket),
}

#[derive(Clone, Copy, Debug)]
pub struct Asking {
    pub life: u32,
    pub step: u64,
    /// The client's lease is measured from here.
    pub sent: Time,
    pub instance: u64,
    pub call: Option<u64>,
    pub token: Token,
    pub idempotent: bool,
    pub time_left: Option<Nanos>,
    pub wanted: Wanted,
    /// It has a session, so the state is pushed to it.
    pub session: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Up {
    Ask(Asking),
    Report {
        instance: u64,
        ticket: Ticket,
        outcome: Outcome,
    },
    Tally {
        instance: u64,
        sequence: u64,
        tally: Tally,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Down {
    Answer {
        life: u32,
        step: u64,
        sent: Time,
        verdict: Result<Grant, Denial>,
        run: u64,
        key: u64,
    },
    Push {
        /// Rises with every push, over restarts too: a stream is in order.
        number: u64,
        standing: Standing,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    Up(usize, Up),
    Down(usize, Down),
    /// A timer of a client; void if it has done something else since.
    Wake {
        client: usize,
        life: u32,
        step: u64,
    },
    /// A client sends its tally.
    Flush {
        client: usize,
        life: u32,
    },
    Fault(Fault),
    /// What was handed to the disk has reached it.
    Written,
    /// Down since a fault.
    Starts,
    Renew,
    Healed,
}
