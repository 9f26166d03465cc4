//! Every interleaving of a small world: three clients, one or two probes, an open period of
//! three ticks, leases of two, one restart; replies that are lost, clients that vanish,
//! reports that come late, twice or after a restart. The real `acquire` and `report` are
//! walked breadth first; what differs only by the time of day is the same state.
//!
//! Then each mechanism that can be taken away from outside is taken away, and the walk must
//! find the harm: a check that cannot fail checks nothing.

use std::collections::{HashSet, VecDeque};

use holdoff_decision::{
    Context, Nanos, Permit, PermitKind, Policy, Question, Record, Reported, Restart, Sample, Share,
    State, Time, acquire,
    breaker::Phase,
    operate::{Checkpoint, checkpoint, restore},
    policy::{Detect, Window, WindowSize},
    report,
};

use crate::fleet::{FAIL, OK, an_ask, plain};

const TICK: Nanos = Nanos::from_secs(1);
const OPEN_FOR: u64 = 3;
const LEASE: u64 = 2;
const CLIENTS: usize = 3;

/// What is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Reports of another epoch count as of this one.
    Fencing,
    /// Permits of the run before are taken for those of this one.
    BootEpoch,
    /// Probes are leased right after a restart.
    Quarantine,
    /// A client lets its probe run on after its lease.
    GivingUp,
    /// Leases are forgotten when the breaker opens again.
    LeasesThatOutliveTransitions,
    /// A lease never ends by itself.
    Reclaim,
    /// A restart finds the state of the beginning.
    DurableTrips,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Harm {
    TooManyProbes,
    EarlyGrant,
    StaleReportCounted,
    Stuck,
}

/// A permit as the world sees it.
#[derive(Clone, Copy, Debug)]
struct Held {
    permit: Permit,
    /// Transitions that the world had seen when it was given.
    generation: u64,
    run: u8,
    used: bool,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    held: Held,
    good: bool,
    /// It has been delivered once.
    copy: bool,
}

#[derive(Clone, Debug)]
struct World {
    record: Record,
    now: Time,
    restarted: Option<Restart>,
    run: u8,
    generation: u64,
    /// No grant before this: the dependency was seen to fail.
    not_before: Time,
    running: [Option<Held>; CLIENTS],
    messages: Vec<Message>,
    /// Leases of the record, kept by hand for the key.
    leases: Vec<(u64, Time)>,
    first_state: Checkpoint,
}

struct Walk {
    policy: Policy,
    without: Without,
    /// Reports on their way at the same time.
    messages_max: usize,
    seen: HashSet<Vec<u64>>,
    queue: VecDeque<World>,
    harms: Vec<Harm>,
}

fn policy(probes: u32, without: Without) -> Policy {
    let mut policy = plain();
    let breaker = &mut policy.breaker;
    breaker.detect = Detect::Window(Window {
        size: WindowSize::Calls(1),
        min_calls: 1,
        failure_ratio: Share::ONE,
        ..Window::default()
    });
    breaker.open_for = Nanos(OPEN_FOR * TICK.0);
    breaker.open_max = breaker.open_for;
    breaker.probes = probes;
    breaker.probe_successes = 2;
    breaker.probe_lease = Nanos(LEASE * TICK.0);
    breaker.permit_ttl = Nanos(4 * TICK.0);
    match without {
        Without::Reclaim => breaker.probe_lease = Nanos::MAX,
        Without::LeasesThatOutliveTransitions => {
            breaker.open_for = TICK;
            breaker.open_max = TICK;
        }
        Without::Nothing
        | Without::Fencing
        | Without::BootEpoch
        | Without::Quarantine
        | Without::GivingUp
        | Without::DurableTrips => {}
    }
    policy
}

impl World {
    fn new() -> Self {
        let record = Record::new(1, Time::ORIGIN);
        Self {
            first_state: checkpoint(&record, Time::ORIGIN),
            record,
            now: Time(100 * TICK.0),
            restarted: None,
            run: 0,
            generation: 0,
            not_before: Time::ORIGIN,
            running: [None; CLIENTS],
            messages: Vec::new(),
            leases: Vec::new(),
        }
    }

    fn context(&self) -> Context {
        Context {
            now: self.now,
            sample: Sample::default(),
            restarted: self.restarted,
        }
    }

    /// All that the future depends on, with times from now and epochs from this one.
    fn key(&self) -> Vec<u64> {
        let breaker = &self.record.breaker;
        let left = |time: Time| self.now.until(time).0;
        let held = |held: &Held| {
            let ages = self.generation.saturating_sub(held.generation).min(3)
                | breaker.epoch.saturating_sub(held.permit.epoch).min(3) << 4
                | u64::from(self.run - held.run) << 8
                | u64::from(held.used) << 9
                | u64::from(held.permit.kind == PermitKind::Probe) << 10;
            [ages, left(held.permit.expires)]
        };
        let mut clients: Vec<_> = self
            .running
            .iter()
            .map(|client| client.as_ref().map(held))
            .collect();
        clients.sort_unstable();
        let mut messages: Vec<_> = self
            .messages
            .iter()
            .map(|message| (held(&message.held), message.good, message.copy))
            .collect();
        messages.sort_unstable();
        let mut leases: Vec<_> = self
            .leases
            .iter()
            .map(|lease| left(lease.1))
            .filter(|left| *left > 0)
            .collect();
        leases.sort_unstable();
        let phase = match breaker.phase {
            Phase::Closed => 0,
            Phase::Open => 1,
            Phase::HalfOpen => 2,
        };
        let quarantine = self
            .restarted
            .map_or(0, |start| left(start.at + Nanos(LEASE * TICK.0)));
        let mut key = vec![
            phase,
            u64::from(self.run),
            if phase == 1 {
                left(breaker.past().open_until)
            } else {
                0
            },
            u64::from(breaker.past().probe_successes) * u64::from(phase == 2),
            left(self.not_before),
            quarantine,
        ];
        for client in clients {
            key.extend(client.unwrap_or([u64::MAX; 2]));
        }
        for (held, good, copy) in messages {
            key.extend([held[0], held[1], u64::from(good) | u64::from(copy) << 1]);
        }
        key.push(u64::MAX - 1);
        key.extend(leases);
        key
    }

    fn probes_in_flight(&self) -> usize {
        let probes = self.running.iter().flatten();
        probes
            .filter(|held| held.permit.kind == PermitKind::Probe)
            .count()
    }
}

impl Walk {
    fn run(probes: u32, messages_max: usize, without: Without) -> (usize, Vec<Harm>) {
        let mut walk = Walk {
            policy: policy(probes, without),
            without,
            messages_max,
            seen: HashSet::new(),
            queue: VecDeque::new(),
            harms: Vec::new(),
        };
        walk.add(World::new());
        while let Some(world) = walk.queue.pop_front() {
            if without != Without::Nothing && !walk.harms.is_empty() {
                break;
            }
            walk.step(&world);
        }
        walk.harms.sort_unstable();
        walk.harms.dedup();
        (walk.seen.len(), walk.harms)
    }

    fn add(&mut self, world: World) {
        if self.seen.insert(world.key()) {
            self.check(&world);
            self.queue.push_back(world);
        }
    }

    fn check(&mut self, world: &World) {
        let out = world.record.breaker.probes_out(world.now);
        let probes = self.policy.breaker.probes;
        if world.probes_in_flight() > probes as usize || out > probes {
            self.harms.push(Harm::TooManyProbes);
        }
        if !self.closes_when_healthy(world) {
            self.harms.push(Harm::Stuck);
        }
    }

    fn closes_when_healthy(&self, world: &World) -> bool {
        let (mut record, mut context) = (world.record.clone(), world.context());
        for _ in 0..(2 * OPEN_FOR + 2 * LEASE + 4) {
            if record.breaker.phase == Phase::Closed {
                return true;
            }
            let ask = an_ask(Question::First);
            if let Ok(grant) = acquire(&self.policy, &mut record, &ask, &context).verdict {
                report(&self.policy, &mut record, &grant.permit, &OK, 1, &context);
            } else {
                context.now = context.now + TICK;
            }
        }
        record.breaker.phase == Phase::Closed
    }

    fn step(&mut self, world: &World) {
        let idle = world.running.iter().position(Option::is_none);
        if let Some(client) = idle {
            self.ask(world, client);
        }
        for client in 0..CLIENTS {
            if let Some(held) = world.running[client] {
                self.end(world, client, held);
            }
        }
        for at in 0..world.messages.len() {
            self.deliver(world, at);
        }
        self.tick(world);
        if world.run == 0 {
            self.restart(world);
        }
    }

    fn ask(&mut self, world: &World, client: usize) {
        let mut next = world.clone();
        let context = next.context();
        let before = next.record.breaker.epoch;
        let answer = acquire(
            &self.policy,
            &mut next.record,
            &an_ask(Question::First),
            &context,
        );
        let Ok(grant) = answer.verdict else {
            return;
        };
        if next.now < next.not_before {
            self.harms.push(Harm::EarlyGrant);
        }
        self.follow(&mut next, before);
        if grant.probe {
            next.leases
                .push((grant.permit.serial, grant.permit.expires));
        }
        let lost = next.clone();
        next.running[client] = Some(Held {
            permit: grant.permit,
            generation: next.generation,
            run: next.run,
            used: false,
        });
        self.add(next);
        self.add(lost);
    }

    /// A call ends: it is reported, or its report is on its way, or the client vanishes.
    fn end(&mut self, world: &World, client: usize, held: Held) {
        let mut vanished = world.clone();
        vanished.running[client] = None;
        for good in [true, false] {
            let mut next = vanished.clone();
            self.report(&mut next, held, good);
            self.add(next);
            if vanished.messages.len() < self.messages_max {
                let mut late = vanished.clone();
                late.messages.push(Message {
                    held,
                    good,
                    copy: false,
                });
                self.add(late);
            }
        }
        self.add(vanished);
    }

    fn deliver(&mut self, world: &World, at: usize) {
        let mut next = world.clone();
        let message = next.messages.remove(at);
        self.report(&mut next, message.held, message.good);
        if !message.copy {
            let mut twice = next.clone();
            let held = Held {
                used: true,
                ..message.held
            };
            twice.messages.push(Message {
                held,
                copy: true,
                ..message
            });
            self.add(twice);
        }
        self.add(next);
    }

    fn report(&mut self, next: &mut World, held: Held, good: bool) {
        let mut permit = held.permit;
        if held.run != next.run && self.without != Without::BootEpoch {
            return;
        }
        if self.without == Without::Fencing {
            permit.epoch = next.record.breaker.epoch;
        }
        let context = next.context();
        let before = state_of(&next.record);
        let outcome = if good { OK } else { FAIL };
        let reported = report(
            &self.policy,
            &mut next.record,
            &permit,
            &outcome,
            1,
            &context,
        );
        if matches!(reported, Reported::Ok | Reported::StaleEpoch) {
            next.leases.retain(|lease| lease.0 != permit.serial);
        }
        let stale = held.generation != next.generation || held.run != next.run || held.used;
        if stale && before != state_of(&next.record) {
            self.harms.push(Harm::StaleReportCounted);
        }
        self.follow(next, before.1);
    }

    /// Notes a transition that the record has made.
    fn follow(&mut self, next: &mut World, epoch_before: u64) {
        if next.record.breaker.epoch == epoch_before {
            return;
        }
        next.generation += 1;
        next.record.take_changes();
        let breaker = &next.record.breaker;
        if breaker.phase == Phase::Open {
            next.not_before = next.now + self.policy.breaker.open_for;
            if self.without == Without::LeasesThatOutliveTransitions {
                next.record = restore(&checkpoint(&next.record, next.now), next.now);
                next.leases.clear();
            }
        }
    }

    fn tick(&mut self, world: &World) {
        let mut next = world.clone();
        next.now = next.now + TICK;
        let gives_up = self.without != Without::GivingUp;
        for client in &mut next.running {
            let over = client.is_some_and(|held| {
                let lease_ends = held.permit.issued + Nanos(LEASE * TICK.0);
                let probe = held.permit.kind == PermitKind::Probe;
                next.now >= held.permit.expires || (probe && next.now >= lease_ends)
            });
            if over && gives_up {
                *client = None;
            }
        }
        let now = next.now;
        next.leases.retain(|lease| now < lease.1);
        self.add(next);
    }

    fn restart(&mut self, world: &World) {
        let mut next = world.clone();
        let saved = match self.without {
            Without::DurableTrips => next.first_state,
            _ => checkpoint(&next.record, next.now),
        };
        next.record = restore(&saved, next.now);
        next.run = 1;
        next.leases.clear();
        next.restarted =
            (self.without != Without::Quarantine).then_some(Restart::after_another(next.now));
        self.add(next);
    }
}

fn state_of(record: &Record) -> (Phase, u64, u32, Time) {
    let breaker = &record.breaker;
    (
        breaker.phase,
        breaker.epoch,
        breaker.past().probe_successes,
        breaker.past().open_until,
    )
}

fn nothing_goes_wrong(messages_max: usize, states_min: usize) {
    for probes in [1, 2] {
        let (states, harms) = Walk::run(probes, messages_max, Without::Nothing);
        println!("{probes} probes: {states} states");
        assert_eq!(harms, []);
        assert!(states > states_min, "{states}");
    }
}

#[test]
fn never_more_probes_than_allowed_no_stale_report_counts_nothing_early_and_never_stuck() {
    nothing_goes_wrong(1, 15_000);
}

#[test]
fn never_more_probes_than_allowed_with_two_reports_on_their_way() {
    nothing_goes_wrong(2, 300_000);
}

#[test]
fn each_mechanism_is_needed() {
    for (without, probes, harm) in [
        (Without::Fencing, 1, Harm::StaleReportCounted),
        (Without::BootEpoch, 1, Harm::StaleReportCounted),
        (Without::Quarantine, 1, Harm::TooManyProbes),
        (Without::Quarantine, 2, Harm::TooManyProbes),
        (Without::GivingUp, 1, Harm::TooManyProbes),
        (
            Without::LeasesThatOutliveTransitions,
            2,
            Harm::TooManyProbes,
        ),
        (Without::Reclaim, 1, Harm::Stuck),
        (Without::DurableTrips, 1, Harm::EarlyGrant),
    ] {
        let (states, harms) = Walk::run(probes, 1, without);
        println!("{without:?}, {probes} probes: {harms:?} after {states} states");
        assert_eq!(harms.first(), Some(&harm), "{without:?}");
    }
}

#[test]
fn a_walk_tells_the_states_of_a_breaker_apart() {
    let world = World::new();
    let mut later = world.clone();
    later.now = later.now + TICK;
    assert_eq!(
        world.key(),
        later.key(),
        "the time of day is not part of a state"
    );
    assert_eq!(world.record.inner_state(world.now), State::Closed);
}
