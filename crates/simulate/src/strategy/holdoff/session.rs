//! What a client has heard on its session, and whether it has one.

use holdoff_decision::{
    State, Tally,
    standing::{FirstAttempts, GO_VALID_FOR},
};

use super::{Fleet, coordinator::Coordinator, lone::Lone, reports::Item};
use crate::{
    random::fixed_unit,
    timeline::{Presence, Timeline},
};

/// What is pushed is said again so often.
const RENEWED_EVERY: u64 = 5_000_000_000;
/// A client returns to its coordinator within so long.
const RETURNS_WITHIN: f64 = 5e9;
/// What a trip waits for before it is pushed: it is written down first.
const WRITTEN_AFTER: u64 = 2_000_000;
/// Questions in a row without an answer that shut the gate, for so long at first.
const UNANSWERED_MAX: u8 = 3;
const SHUT: (u64, u64) = (1_000_000_000, 5_000_000_000);
const SHUT_LONGEST: (u64, u64) = (6_000_000_000, 30_000_000_000);

/// One client of one record.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// From when on it hears what is pushed; `MAX`: once it has asked for the first time.
    pub hears_from: u64,
    /// Questions in a row without an answer.
    unanswered: u8,
    shut_until: u64,
    pub tally: Tally,
    /// Since when what is to be reported was counted.
    pub counts_since: Option<u64>,
    pub items: Vec<Item>,
    /// When its report is due; 0: there is nothing to report.
    pub due: u64,
    pub lone: Option<Box<Lone>>,
}

impl Session {
    pub fn new_process() -> Self {
        Self {
            hears_from: u64::MAX,
            ..Self::default()
        }
    }

    pub fn is_shut(&self, now: u64) -> bool {
        now < self.shut_until
    }

    pub fn answered(&mut self) {
        (self.unanswered, self.shut_until) = (0, 0);
    }

    /// A question got no answer; `unit` places the end of what follows.
    pub fn unanswered(&mut self, unit: f64, now: u64) {
        self.unanswered = self.unanswered.saturating_add(1);
        if let Some(trials) = self.unanswered.checked_sub(UNANSWERED_MAX) {
            let factor = 1 << trials.min(5);
            let least = (SHUT.0 * factor).min(SHUT_LONGEST.0);
            let most = (SHUT.1 * factor).min(SHUT_LONGEST.1);
            self.shut_until = now + least + ((most - least) as f64 * unit) as u64;
        }
    }
}

/// What to do with a first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Make it, on the state of this epoch.
    Go(u64),
    /// For so long.
    Refuse(u64),
    Ask,
}

/// What a client has heard last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    pub state: State,
    pub epoch: u64,
    pub first_attempts: FirstAttempts,
    pub valid_until: u64,
    /// When it was heard.
    pub since: u64,
}

impl Heard {
    /// A trip since a grant of this epoch drops it: how long that is refused.
    pub fn tripped_since(&self, epoch: u64, attempt: u32, now: u64) -> Option<u64> {
        let binds = attempt > 1 || self.first_attempts == FirstAttempts::Refuse;
        let is_open = matches!(self.state, State::Open | State::ForcedOpen);
        let tripped = is_open && self.epoch > epoch && now < self.valid_until;
        (tripped && binds).then(|| self.valid_until - now)
    }

    /// How long a question is refused that gets no answer: what was said before still stands.
    /// `since`: only what was said in this epoch or later counts.
    pub fn refuses_alone(&self, attempt: u32, since: u64, now: u64) -> Option<u64> {
        let is_open = matches!(self.state, State::Open | State::ForcedOpen);
        let (refuses, most) = match self.first_attempts {
            FirstAttempts::Refuse => (true, u64::MAX),
            FirstAttempts::Ask => (is_open, GO_VALID_FOR.0),
            FirstAttempts::Go => (is_open && attempt > 1, GO_VALID_FOR.0),
        };
        let left = self.valid_until.saturating_sub(now).min(most);
        (refuses && self.epoch >= since && left > 0).then_some(left)
    }

    /// Whether the service is known to stand by what it granted in this epoch.
    pub fn stands_by(&self, epoch: u64, now: u64) -> bool {
        self.state == State::Closed
            && self.epoch == epoch
            && self.first_attempts != FirstAttempts::Refuse
            && now < self.valid_until
    }
}

/// A time in which part of the fleet has no coordinator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    from: u64,
    to: u64,
    /// Of the clients, from number 0 on.
    share: f64,
    /// It is cut off, and does not know.
    unknown: bool,
}

/// How a client stands with the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Up,
    /// Since then there is no session, and the client knows.
    Away(u64),
    /// Since then nothing arrives.
    Cut(u64),
}

pub fn outages(timeline: &Timeline) -> Vec<Outage> {
    let mut outages: Vec<Outage> = Vec::new();
    for stretch in &timeline.stretches {
        let (share, unknown) = match stretch.coordinator {
            Presence::Away { .. } => (1.0, false),
            Presence::There => (stretch.cut_from_coordinator, true),
        };
        let outage = Outage {
            from: stretch.from,
            to: stretch.to,
            share,
            unknown,
        };
        match outages.last_mut() {
            _ if share == 0.0 => {}
            // Something else has changed meanwhile.
            Some(last)
                if last.to == outage.from && last.share == share && last.unknown == unknown =>
            {
                last.to = outage.to;
            }
            Some(_) | None => outages.push(outage),
        }
    }
    outages
}

impl Fleet {
    pub(super) fn link(&self, who: usize, now: u64) -> Link {
        let client = self.client_of(who);
        for (number, outage) in self.outages.iter().enumerate() {
            let affected = (client as f64) < outage.share * self.clients as f64;
            if !affected || now < outage.from {
                continue;
            }
            if now < outage.to && outage.unknown {
                return Link::Cut(outage.from);
            }
            if now < self.returns_at(client, number, outage) {
                return Link::Away(outage.from);
            }
        }
        Link::Up
    }

    /// Since when this client has been connected.
    pub(super) fn connected_at(&self, who: usize, now: u64) -> u64 {
        let client = self.client_of(who);
        let returned = self.outages.iter().enumerate().map(|(number, outage)| {
            let affected = (client as f64) < outage.share * self.clients as f64;
            match affected {
                true => self.returns_at(client, number, outage),
                false => 0,
            }
        });
        returned.filter(|at| *at <= now).max().unwrap_or(0)
    }

    fn returns_at(&self, client: usize, number: usize, outage: &Outage) -> u64 {
        let unit = fixed_unit(self.seed, client as u64, number as u64);
        outage.to + (unit * RETURNS_WITHIN) as u64
    }

    /// What this client does with first attempts.
    pub(super) fn word(&mut self, who: usize, now: u64) -> Word {
        if now < self.sessions[who].hears_from {
            return Word::Ask;
        }
        let heard = self.heard(who, now);
        match heard.first_attempts {
            _ if now >= heard.valid_until => Word::Ask,
            FirstAttempts::Go => Word::Go(heard.epoch),
            FirstAttempts::Refuse => Word::Refuse(heard.valid_until - now),
            FirstAttempts::Ask => Word::Ask,
        }
    }

    /// The newest that has reached this client.
    pub(super) fn heard(&self, who: usize, now: u64) -> Heard {
        let link = self.link(who, now);
        let until = match link {
            Link::Up => now,
            Link::Away(since) | Link::Cut(since) => since,
        };
        let pushes = self.coordinator.pushes(self.layer_of(who));
        let reaches = |number: usize, at: u64| {
            let unit = fixed_unit(self.seed, who as u64, number as u64);
            let way = WRITTEN_AFTER + self.way.0 + (self.way.1 as f64 * unit) as u64;
            if number == 0 { 0 } else { at + way }
        };
        let newest =
            (pushes.iter().enumerate().rev()).find(|(number, it)| reaches(*number, it.at) <= until);
        // The first has reached everybody.
        let (number, push) = newest.unwrap_or((0, &pushes[0]));
        let pushed = push.to(Coordinator::caller(who));
        let unit = fixed_unit(!self.seed, who as u64, number as u64);
        let standing = pushed.standing;
        Heard {
            since: reaches(number, push.at),
            state: standing.state,
            epoch: standing.epoch,
            first_attempts: standing.first_attempts,
            valid_until: match (standing.first_attempts, link) {
                (FirstAttempts::Refuse, _) => pushed.valid_until(push.at, unit),
                (FirstAttempts::Go | FirstAttempts::Ask, Link::Up) => u64::MAX,
                (FirstAttempts::Go | FirstAttempts::Ask, Link::Away(_) | Link::Cut(_)) => {
                    let since_renewed = (unit * RENEWED_EVERY as f64) as u64;
                    (until + GO_VALID_FOR.0).saturating_sub(since_renewed)
                }
            },
        }
    }
}
