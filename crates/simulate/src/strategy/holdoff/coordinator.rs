//! The coordinator: the records of the rules, taken through `holdoff_decision` exactly as the
//! service takes them, and what it pushes to sessions.
//!
//! A push is not sent to each client as an event: what is pushed is remembered, and a client that
//! looks sees the newest that had reached it by then, over a way that is its own.

use holdoff_decision::{
    Answer, Ask, Context, MadeUnder, Nanos, Outcome, Permit, Policy, Previous, Priority, Question,
    Record, Restart, Sample, State, Tally, Time, acquire,
    evidence::News,
    operate::{self, Checkpoint},
    record::Change,
    report,
    standing::{Standing, standing_of},
    tally,
};

use crate::{
    measure::Measure,
    random::{Purpose, Stream, mixed},
    scenario::Scenario,
};

/// Epochs that a coordinator without a memory leaves free for those that it has forgotten.
const EPOCHS_PER_BOOT: u64 = 1 << 32;

/// The coordinator.
pub struct Coordinator {
    policy: Policy,
    records: Vec<Record>,
    /// By record, oldest first; never empty.
    pushes: Vec<Vec<Push>>,
    /// By record, those that were refused alone.
    faults: Vec<Vec<u64>>,
    /// `Some`: away, with what it had written down.
    away: Option<Vec<Checkpoint>>,
    boot: u32,
    restarted: Option<Restart>,
    random: Stream,
    service: u64,
    busy_until: u64,
}

/// What was pushed of one record at one time.
#[derive(Clone, Debug)]
pub struct Push {
    pub at: u64,
    pub for_all: Pushed,
    /// For those that are refused alone, by their hashes.
    pub for_some: Vec<(u64, Pushed)>,
}

/// A standing whose spread is not drawn yet.
#[derive(Clone, Copy, Debug)]
pub struct Pushed {
    pub standing: Standing,
    /// On top of its `valid_for`, times a draw.
    pub spread: u64,
}

impl Coordinator {
    pub fn new(scenario: &Scenario, policy: &Policy, records: usize, seed: u64) -> Self {
        let mut coordinator = Self {
            policy: policy.clone(),
            records: vec![Record::new(1, Time::ORIGIN); records],
            pushes: vec![Vec::new(); records],
            faults: vec![Vec::new(); records],
            away: None,
            boot: 0,
            restarted: None,
            random: Stream::new(seed, u32::MAX, Purpose::Coordinator),
            service: scenario.coordinator.service.nanos(),
            busy_until: 0,
        };
        (0..records).for_each(|index| coordinator.push(index, 0));
        coordinator
    }

    pub fn boot(&self) -> u32 {
        self.boot
    }

    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// `None`: it is away.
    pub fn state(&self, record: usize, at: u64) -> Option<State> {
        match self.away {
            None => Some(self.records[record].state(&self.policy, Time(at))),
            Some(_) => None,
        }
    }

    pub fn pushes(&self, record: usize) -> &[Push] {
        &self.pushes[record]
    }

    /// The hash of an instance.
    pub fn caller(who: usize) -> u64 {
        mixed(who as u64 + 1)
    }

    /// Takes a message; it has been worked on at the time that is answered.
    pub fn take_up(&mut self, now: u64) -> u64 {
        self.busy_until = self.busy_until.max(now) + self.service;
        self.busy_until
    }

    pub fn ask(&mut self, record: usize, ask: &Ask, now: u64, measure: &mut Measure) -> Answer {
        let context = self.context(now);
        let answer = acquire(&self.policy, &mut self.records[record], ask, &context);
        self.tell_changes(record, now, measure);
        answer
    }

    pub fn report(
        &mut self,
        record: usize,
        permit: (&Permit, u32),
        outcome: &Outcome,
        who: usize,
        now: u64,
        measure: &mut Measure,
    ) {
        // Of a run before: nothing is left to count it against.
        if permit.1 != self.boot {
            return;
        }
        let (context, caller) = (self.context(now), Self::caller(who));
        let it = &mut self.records[record];
        report(&self.policy, it, permit.0, outcome, caller, &context);
        self.tell_changes(record, now, measure);
    }

    pub fn tally(
        &mut self,
        record: usize,
        counts: &Tally,
        who: usize,
        now: u64,
        measure: &mut Measure,
    ) {
        let (context, caller) = (self.context(now), Self::caller(who));
        tally(
            &self.policy,
            &mut self.records[record],
            counts,
            caller,
            &context,
        );
        self.tell_changes(record, now, measure);
    }

    /// An outcome on pushed state that asked for a wait, which a tally has no place for: it goes
    /// with a question that is sure to be denied.
    pub fn tell_in_vain(
        &mut self,
        record: usize,
        epoch: u64,
        outcome: &Outcome,
        who: usize,
        now: u64,
        measure: &mut Measure,
    ) {
        let previous = Previous {
            made_under: MadeUnder::Epoch(epoch),
            outcome: *outcome,
        };
        let ask = Ask {
            question: Question::Retry {
                attempt: 2,
                previous,
            },
            caller: Self::caller(who),
            service: record as u64,
            call: None,
            idempotent: false,
            time_left: None,
            priority: Priority::Normal,
            cost: 1,
        };
        self.ask(record, &ask, now, measure);
    }

    pub fn go(&mut self, now: u64) {
        let kept = self
            .records
            .iter()
            .map(|it| operate::checkpoint(it, Time(now)));
        self.away = Some(kept.collect());
    }

    /// It comes back as the service does: with its breakers as they were written down, or, without
    /// a data directory, with nothing.
    pub fn come_back(&mut self, keeps_state: bool, now: u64) {
        let Some(kept) = self.away.take() else {
            return;
        };
        self.boot += 1;
        self.restarted = Some(Restart {
            at: Time(now),
            is_on_record: keeps_state,
        });
        self.busy_until = now;
        for (index, checkpoint) in kept.iter().enumerate() {
            self.records[index] = match keeps_state {
                true => operate::restore(checkpoint, Time(now)),
                false => Record::new(u64::from(self.boot) * EPOCHS_PER_BOOT, Time(now)),
            };
            self.faults[index].clear();
            self.push(index, now);
        }
    }

    fn context(&mut self, now: u64) -> Context {
        Context {
            now: Time(now),
            sample: Sample {
                jitter: self.random.unit(),
                spread: self.random.unit(),
            },
            restarted: self.restarted,
        }
    }

    fn tell_changes(&mut self, record: usize, now: u64, measure: &mut Measure) {
        if !self.records[record].has_changes() {
            return;
        }
        let is_last = record + 1 == self.records.len();
        for change in self.records[record].take_changes() {
            match change {
                Change::Transition {
                    to: State::Open, ..
                } if is_last => measure.fleet_opened(now),
                Change::Transition { .. } | Change::Held(_) => {}
                Change::Caller(News::Refused { caller, .. }) => self.faults[record].push(caller),
                Change::Caller(News::Recovered { caller }) => {
                    self.faults[record].retain(|it| *it != caller);
                }
            }
        }
        measure.counts.pushes += u64::from(measure.clients());
        self.push(record, now);
    }

    fn push(&mut self, record: usize, now: u64) {
        let it = &self.records[record];
        let pushed = |caller: u64| {
            let with = |spread: f64| {
                let context = Context {
                    now: Time(now),
                    sample: Sample {
                        jitter: 0.0,
                        spread,
                    },
                    restarted: self.restarted,
                };
                standing_of(&self.policy, it, caller, &context)
            };
            let (least, most) = (with(0.0), with(1.0));
            Pushed {
                standing: least,
                spread: most.valid_for.saturating_sub(least.valid_for).0,
            }
        };
        // No instance has this hash but by chance.
        let for_all = pushed(0);
        let for_some = self.faults[record]
            .iter()
            .map(|it| (*it, pushed(*it)))
            .collect();
        self.pushes[record].push(Push {
            at: now,
            for_all,
            for_some,
        });
    }
}

impl Push {
    pub fn to(&self, caller: u64) -> &Pushed {
        let own = self.for_some.iter().find(|(it, _)| *it == caller);
        own.map_or(&self.for_all, |(_, pushed)| pushed)
    }
}

impl Pushed {
    /// When a session that drew `unit` may rely on it no longer.
    pub fn valid_until(&self, at: u64, unit: f64) -> u64 {
        let spread = Nanos(self.spread).scaled(unit);
        at.saturating_add(self.standing.valid_for.saturating_add(spread).0)
    }
}
