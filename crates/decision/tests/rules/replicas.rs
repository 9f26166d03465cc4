//! Four replicas with one record, on virtual time: swaps of the shared form, messages that come
//! late or never, replicas that pause and replicas that are new. What must hold over the fleet is
//! checked against what was granted, by naive counts: invariants 2, 5, 6 and 7.

use std::collections::{BTreeMap, BTreeSet};

use holdoff_decision::{
    Answer, Ask, Context, Grant, Nanos, Outcome, OutcomeKind, Permit, PermitKind, Policy, Previous,
    Question, Reach, Record, Reported, Sample, Summary, Time, acquire, acquire::MadeUnder,
    policy::RetryRate, reach_of_ask, reach_of_report, report,
};
use proptest::prelude::*;

use crate::fleet::an_ask;

const REPLICAS: usize = 4;
const START: Time = Time(1_000_000_000_000);

/// What the store has: a version and the bytes.
struct Stored {
    version: u64,
    bytes: Vec<u8>,
}

struct Replica {
    record: Record,
    version: u64,
    /// It takes no message before.
    paused_until: Time,
}

#[derive(Clone)]
enum Message {
    Changed(u64, Vec<u8>),
    Told(Summary),
}

struct World {
    policy: Policy,
    now: Time,
    stored: Stored,
    replicas: Vec<Replica>,
    numbers: u16,
    /// To whom, and when it comes.
    mail: Vec<(Time, usize, Message)>,
    probes: BTreeMap<u64, Time>,
    firsts: Vec<Time>,
    retries: Vec<Time>,
    slots: BTreeMap<u64, u32>,
    open: Vec<Grant>,
    granted: BTreeSet<u64>,
    counted: BTreeSet<u64>,
}

fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.breaker.open_for = Nanos::from_millis(200);
    policy.breaker.open_max = Nanos::from_millis(400);
    policy.breaker.probes = 2;
    policy.breaker.probe_lease = Nanos::from_millis(300);
    policy.breaker.probe_successes = 2;
    policy.budget.ttl = Nanos::from_secs(1);
    policy.budget.floor_micros_per_second = 4_000_000;
    // 0.8 of a place in a slot.
    policy.calendar.retry_rate = RetryRate::PerSecond(80.0);
    policy.retry.max_delay = Nanos::from_millis(300);
    policy
}

fn new_record(number: u16, bytes: &[u8], policy: &Policy, now: Time) -> Record {
    let mut record = Record::new(1, now);
    record.become_of_replica(number);
    record.take_shared(policy, Record::read(bytes).unwrap(), now);
    record
}

impl World {
    fn new() -> Self {
        let policy = policy();
        let mut bytes = Vec::new();
        Record::new(1, START).write_shared(&mut bytes);
        let replicas = (1..=REPLICAS as u16).map(|number| Replica {
            record: new_record(number, &bytes, &policy, START),
            version: 1,
            paused_until: START,
        });
        Self {
            replicas: replicas.collect(),
            policy,
            now: START,
            stored: Stored { version: 1, bytes },
            numbers: REPLICAS as u16,
            mail: Vec::new(),
            probes: BTreeMap::new(),
            firsts: Vec::new(),
            retries: Vec::new(),
            slots: BTreeMap::new(),
            open: Vec::new(),
            granted: BTreeSet::new(),
            counted: BTreeSet::new(),
        }
    }

    fn context(&self, draw: u16) -> Context {
        Context {
            now: self.now,
            sample: Sample {
                jitter: f64::from(draw) / 65_536.0,
                spread: f64::from(draw.rotate_left(7)) / 65_536.0,
            },
            restarted: None,
        }
    }

    /// Swaps what `rule` makes of the record of this replica. It begins with what the replica
    /// has, which may be old, and again with what the store has.
    fn swap<R>(&mut self, at: usize, mut rule: impl FnMut(&Policy, &mut Record) -> R) -> R {
        loop {
            let replica = &mut self.replicas[at];
            let mut draft = replica.record.clone();
            let result = rule(&self.policy, &mut draft);
            if replica.version != self.stored.version {
                let shared = Record::read(&self.stored.bytes).unwrap();
                replica.record.take_shared(&self.policy, shared, self.now);
                replica.version = self.stored.version;
                continue;
            }
            let mut bytes = Vec::new();
            draft.write_shared(&mut bytes);
            draft.note_shared();
            draft.take_changes();
            replica.record = draft;
            if bytes != self.stored.bytes {
                self.stored.version += 1;
                self.stored.bytes = bytes;
                replica.version = self.stored.version;
                let changed = Message::Changed(self.stored.version, self.stored.bytes.clone());
                self.send(at, &changed);
            }
            return result;
        }
    }

    /// A third is lost; the others come within 300 ms, in any order.
    fn send(&mut self, from: usize, message: &Message) {
        for to in (0..REPLICAS).filter(|to| *to != from) {
            let luck =
                (self.now.0 / 1_000_000 * 31 + self.mail.len() as u64 * 17 + to as u64 * 7) % 97;
            if !luck.is_multiple_of(3) {
                let comes = self.now + Nanos::from_millis(luck * 3);
                self.mail.push((comes, to, message.clone()));
            }
        }
    }

    fn deliver(&mut self) {
        let (now, replicas) = (self.now, &mut self.replicas);
        let mut due = Vec::new();
        self.mail.retain(|(at, to, message)| {
            let comes = *at <= now && replicas[*to].paused_until <= now;
            if comes {
                due.push((*to, message.clone()));
            }
            !comes
        });
        for (to, message) in due {
            match message {
                Message::Changed(version, bytes) if version > self.replicas[to].version => {
                    let replica = &mut self.replicas[to];
                    let shared = Record::read(&bytes).unwrap();
                    replica.record.take_shared(&self.policy, shared, now);
                    replica.version = version;
                }
                Message::Changed(..) => {}
                Message::Told(summary) => {
                    self.replicas[to].record.hear(&self.policy, &summary, now)
                }
            }
            self.share(to);
        }
    }

    fn share(&mut self, at: usize) {
        if self.replicas[at].record.is_unshared() {
            self.swap(at, |_, _| ());
        }
    }

    fn acquire(&mut self, at: usize, ask: &Ask, draw: u16) -> Answer {
        let context = self.context(draw);
        let record = &mut self.replicas[at].record;
        let answer = match reach_of_ask(&self.policy, record, ask, Time::ORIGIN, self.now) {
            Reach::Here => {
                let answer = acquire(&self.policy, record, ask, &context);
                self.share(at);
                answer
            }
            Reach::Fleet | Reach::Behind | Reach::Store => {
                self.swap(at, |policy, record| acquire(policy, record, ask, &context))
            }
        };
        if let Ok(grant) = &answer.verdict {
            self.granted(ask, *grant);
        }
        answer
    }

    fn granted(&mut self, ask: &Ask, grant: Grant) {
        let now = self.now;
        if !self.granted.insert(grant.permit.serial) {
            // The same answer again.
            return;
        }
        if grant.probe {
            self.probes.retain(|_, ends| now < *ends);
            self.probes
                .insert(grant.permit.serial, now + self.policy.breaker.probe_lease);
            let out = self.probes.len();
            assert!(
                out <= self.policy.breaker.probes as usize,
                "{out} probes at {now:?}"
            );
        }
        match ask.question {
            Question::First => self.firsts.push(now),
            _ => {
                self.retries.push(now);
                let ttl = self.policy.budget.ttl;
                let within =
                    |times: &[Time]| times.iter().filter(|at| now.since(**at) < ttl).count() as u64;
                let (retries, firsts) = (within(&self.retries), within(&self.firsts));
                assert!(retries <= firsts / 5 + 4, "{retries} retries of {firsts}");
            }
        }
        if grant.permit.kind == PermitKind::Planned {
            let slot = (grant.permit.issued + grant.permit.delay).0 / 10_000_000;
            let held = self.slots.entry(slot).or_default();
            *held += 1;
            let capacity = (slot + 1) * 8 / 10 - slot * 8 / 10;
            assert!(
                u64::from(*held) <= capacity,
                "{held} of {capacity} in slot {slot}"
            );
        }
        self.open.push(grant);
    }

    fn report(&mut self, at: usize, permit: &Permit, kind: OutcomeKind, draw: u16) -> Reported {
        let (context, outcome) = (self.context(draw), Outcome::of(kind));
        let record = &mut self.replicas[at].record;
        let caller = u64::from(draw % 5);
        let told = match reach_of_report(record, permit, self.now) {
            Reach::Here => {
                let told = report(&self.policy, record, permit, &outcome, caller, &context);
                self.share(at);
                told
            }
            Reach::Fleet | Reach::Behind | Reach::Store => self.swap(at, |policy, record| {
                report(policy, record, permit, &outcome, caller, &context)
            }),
        };
        self.reported(permit, told);
        told
    }

    fn reported(&mut self, permit: &Permit, told: Reported) {
        let was_out = self.probes.remove(&permit.serial).is_some();
        if told == Reported::Ok && was_out {
            assert!(self.counted.insert(permit.serial), "a probe counts once");
        }
    }

    fn step(&mut self, (what, at, pass_ms, draw): (u8, usize, u64, u16), healthy: bool) {
        self.now = self.now + Nanos::from_millis(pass_ms);
        self.deliver();
        let bad = !healthy && draw % 8 != 0;
        let kind = if bad {
            OutcomeKind::Failure
        } else {
            OutcomeKind::Success
        };
        let ask = |question| Ask {
            caller: u64::from(draw % 5),
            ..an_ask(question)
        };
        match what {
            0..8 => drop(self.acquire(at, &ask(Question::First), draw)),
            8..13 if !self.open.is_empty() => {
                let grant = self.open.swap_remove(usize::from(draw) % self.open.len());
                // Before its time it would give its place back.
                if self.now >= grant.permit.issued + grant.permit.delay {
                    self.report(at, &grant.permit, kind, draw);
                    if draw % 4 == 0 {
                        // Repeated at the same replica: never counted again.
                        let again = self.report(at, &grant.permit, kind, draw);
                        assert_ne!(again, Reported::Ok);
                    }
                } else {
                    self.open.push(grant);
                }
            }
            13..17 if !self.open.is_empty() => {
                let grant = self.open[usize::from(draw) % self.open.len()];
                if self.now >= grant.permit.issued + grant.permit.delay {
                    let previous = Previous {
                        made_under: MadeUnder::Permit(grant.permit),
                        outcome: Outcome::of(OutcomeKind::Failure),
                    };
                    let question = Question::Retry {
                        attempt: 2,
                        previous,
                    };
                    let answer = self.acquire(at, &ask(question), draw);
                    if let Some(told) = answer.previous {
                        self.reported(&grant.permit, told);
                    }
                }
            }
            17 => {
                if let Some(summary) = self.replicas[at].record.take_gathered() {
                    self.send(at, &Message::Told(summary));
                }
            }
            18 => self.replicas[at].paused_until = self.now + Nanos::from_millis(500),
            // Debts are paid within a second; here a little later.
            19 => self.swap(at, |_, _| ()),
            // It dies, and another comes in its place.
            20 if draw % 4 == 0 => {
                self.numbers += 1;
                let record = new_record(self.numbers, &self.stored.bytes, &self.policy, self.now);
                self.replicas[at] = Replica {
                    record,
                    version: self.stored.version,
                    paused_until: self.now,
                };
                self.mail.retain(|(_, to, _)| *to != at);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Invariants 2, 5, 6 and 7 over replicas that hear of each other late or never.
    #[test]
    fn probes_budgets_and_places_hold_over_replicas_whatever_is_lost_or_late(
        steps in proptest::collection::vec((0..21_u8, 0..REPLICAS, 0..12_u64, any::<u16>()), 100..1_500),
        outage in 20..200_usize,
    ) {
        let mut world = World::new();
        for (number, step) in steps.into_iter().enumerate() {
            world.step(step, number / outage % 2 == 0);
        }
    }
}

#[test]
fn the_story_trips_probes_retries_and_recovers() {
    let mut world = World::new();
    let mut draw = 7_u16;
    let (mut epochs, mut probes) = (BTreeSet::new(), 0);
    for number in 0..30_000_usize {
        draw = draw.wrapping_mul(25_173).wrapping_add(13_849);
        let what = (draw >> 8) as u8 % 21;
        let step = (
            what,
            usize::from(draw >> 3) % REPLICAS,
            u64::from(draw % 9),
            draw.rotate_left(5),
        );
        world.step(step, number / 500 % 2 == 0);
        epochs.insert(world.replicas[0].record.breaker.epoch);
        probes = probes.max(world.counted.len());
    }
    assert!(epochs.len() >= 20, "{epochs:?}");
    assert!(probes >= 10, "{probes} probes were reported");
    assert!(world.retries.len() >= 30, "{} retries", world.retries.len());
}

#[test]
fn who_loses_the_race_to_trip_takes_the_epoch_of_the_winner() {
    let mut world = World::new();
    for at in 0..2 {
        for _ in 0..5 {
            let answer = world.acquire(at, &an_ask(Question::First), 1);
            let permit = answer.verdict.unwrap().permit;
            let context = world.context(1);
            let (policy, record) = (world.policy.clone(), &mut world.replicas[at].record);
            report(
                &policy,
                record,
                &permit,
                &Outcome::of(OutcomeKind::Failure),
                1,
                &context,
            );
        }
        assert!(world.replicas[at].record.is_unshared());
    }
    world.share(0);
    world.share(1);
    for at in 0..2 {
        let record = &mut world.replicas[at].record;
        assert_eq!(record.breaker.epoch, 2);
        assert!(!record.is_unshared());
        assert!(
            record.take_changes().is_empty(),
            "the loser has nothing to tell"
        );
    }
}
