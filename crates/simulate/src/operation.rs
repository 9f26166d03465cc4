//! Operations: what clients want done, each at one point of its way.

use crate::measure::End;

/// Services on the way of a call at most.
pub const LAYERS_MAX: usize = 5;

/// One operation. Where each client has one at a time, it is the client's for ever.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub client: u32,
    /// Events of an earlier one are void.
    pub generation: u32,
    pub phase: Phase,
    /// The service on the way that decides now; 0 is the client itself.
    pub layer: u8,
    /// The running attempt of each.
    pub attempts: [u32; LAYERS_MAX],
    pub began: u64,
    /// When its call was sent.
    pub sent: u64,
    /// How its last attempt ended.
    pub last: End,
}

/// Where an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is none: the client thinks, or the place is free.
    Idle,
    /// Waits, and then goes.
    WaitsToGo,
    /// Waits, and then asks again.
    WaitsToAsk,
    /// Waits, and then is a new call.
    WaitsToBegin,
    /// Waits for an answer.
    Asks,
    /// Its call is under way.
    Calls,
}

impl Operation {
    pub const fn idle(client: u32) -> Self {
        Self {
            client,
            generation: 0,
            phase: Phase::Idle,
            layer: 0,
            attempts: [0; LAYERS_MAX],
            began: 0,
            sent: 0,
            last: End::Served,
        }
    }

    pub const fn attempt(&self) -> u32 {
        self.attempts[self.layer as usize]
    }

    pub fn attempt_mut(&mut self) -> &mut u32 {
        &mut self.attempts[self.layer as usize]
    }

    pub fn is_in_hand(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Whatever is planned for it is void.
    pub fn move_on(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}
