//! Questions that are held back: where a whole fleet fails at once, the first reports trip the
//! breaker, and what is pushed then answers the others.
//!
//! A client of a fleet of more than five thousand holds the question after a failure on pushed
//! state back for a moment that grows with the fleet. An open breaker that it hears of meanwhile
//! answers without a question; otherwise it asks, and the time is part of the delay it is granted.
//!
//! A client that is answered meanwhile is looked at when its time is over, not at once: what it
//! was told is valid for longer than that, and holds to the same end.

use holdoff_decision::{Nanos, State, standing::FirstAttempts};

use super::{
    Fleet, Made,
    session::{Heard, Link},
};
use crate::{strategy::alone::Decision, world::Ground};

/// Fleets of at most so many ask at once.
const CLIENTS_AT_ONCE: u64 = 5_000;
/// For each client more.
const PER_CLIENT: u64 = 10_000;
const LONGEST: u64 = 1_000_000_000;

/// The question about one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    No,
    Since(u64),
    /// It was, for so long.
    Was(u64),
}

impl Held {
    /// What the wait before the attempt is already over by.
    pub fn for_so_long(self) -> u64 {
        match self {
            Self::Was(lasted) => lasted,
            Self::No | Self::Since(_) => 0,
        }
    }

    /// What is granted to a question that is asked again began with that question.
    pub fn is_denied(&mut self) {
        if let Self::Was(lasted) = self {
            *lasted = 0;
        }
    }
}

impl Fleet {
    /// May this retry go?
    pub(super) fn seek_again(&mut self, ground: &mut Ground<'_>, index: usize) -> Decision {
        let (place, who) = self.place(ground, index);
        let now = ground.now;
        let pursuit = self.pursuits[place];
        let longest = (self.clients as u64).saturating_sub(CLIENTS_AT_ONCE) * PER_CLIENT;
        let is_up = self.link(who, now) == Link::Up && !self.sessions[who].is_shut(now);
        let may_hold = longest > 0 && is_up && matches!(pursuit.made, Made::OnState(_));
        let held = match pursuit.held {
            Held::No if may_hold => Held::Since(now),
            Held::Since(since) => Held::Was(now - since),
            Held::No | Held::Was(_) => return self.ask(ground, index, false),
        };
        self.pursuits[place].held = held;
        if let Some(left) = refuses(&self.heard(who, now), &pursuit.made, now) {
            self.pursuits[place].held = Held::Was(0);
            return self.denied(ground, index, Some(Nanos(left)), false);
        }
        match held {
            Held::Since(_) => {
                let client = ground.operations[index].client as usize;
                let longest = longest.min(LONGEST);
                let longest = ground
                    .time_left(index)
                    .map_or(longest, |it| it.min(longest));
                let wait = self.ways[client].between(0, longest);
                Decision::AskAfter(wait.max(1))
            }
            Held::No | Held::Was(_) => self.ask(ground, index, false),
        }
    }
}

/// For how long a refusal that was heard of since the attempt lasts.
fn refuses(heard: &Heard, made: &Made, now: u64) -> Option<u64> {
    let is_open = matches!(heard.state, State::Open | State::ForcedOpen);
    let is_later = !matches!(made, Made::OnState(epoch) if heard.epoch <= *epoch);
    let refuses = is_later && (is_open || heard.first_attempts == FirstAttempts::Refuse);
    let left = heard.valid_until.saturating_sub(now);
    (refuses && left > 0).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_held_back_shortens_the_delay_that_its_own_question_is_granted_and_no_later_one() {
        let mut held = Held::Was(900_000_000);
        assert_eq!(held.for_so_long(), 900_000_000);
        held.is_denied();
        assert_eq!(held.for_so_long(), 0);
        let mut not_held = Held::No;
        not_held.is_denied();
        assert_eq!(not_held, Held::No, "a later failure is held back");
    }
}
