//! The world of one seed: a queue of events on virtual time, the network between clients and
//! coordinator, and the faults.
//!
//! Whoever pauses takes what has come meanwhile when it is back, in order, believing what it
//! believed; whoever is down never hears of it.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashSet},
};

use holdoff_decision::{Context, Nanos, Time, breaker::Phase, record::OverrideKind};

use super::{
    Without,
    client::Client,
    coordinator::Coordinator,
    draws::Draws,
    messages::{Down, Event, Up},
    scenario::{Fault, Keeps, RENEW_EVERY, Scenario},
    truth::{Harm, Truth},
};

pub struct World {
    pub scenario: Scenario,
    pub without: Without,
    pub draws: Draws,
    pub now: Time,
    pub clients: Vec<Client>,
    pub coordinator: Coordinator,
    pub truth: Truth,
    /// Serials that were granted, by run.
    pub granted: HashSet<(u64, u64)>,
    /// Those of probes that a run leased which knew of no run before it, though there was one.
    pub unaware: HashSet<(u64, u64)>,
    /// The operator's order in force, as the operator knows it.
    pub order: Option<(OverrideKind, Option<Time>)>,
    pub pushes: u64,
    pub seen: Seen,
    pub trace: Option<Vec<String>>,
    queue: BinaryHeap<Reverse<Queued>>,
    queued: u64,
    /// Of each client: what it sends, what it is sent. The last one: of all.
    black_holes: Vec<[Time; 2]>,
}

/// How a seed ends that is not as it should be.
#[derive(Clone, Debug)]
pub struct Failure {
    pub harm: Harm,
    pub at: Time,
    pub detail: String,
}

/// What a seed has seen, so that nobody takes an empty story for a good one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub events: u64,
    pub trips: u64,
    pub probes: u64,
    /// Those of runs that knew of no run before them, though there was one.
    pub unaware_probes: u64,
    /// The most that could be on the wire at once.
    pub probes_held: u64,
    pub restarts: u64,
    pub lost: u64,
    pub doubled: u64,
    pub duplicates: u64,
    pub stale: u64,
    pub given_up: u64,
    pub retries: u64,
    pub refusals: u64,
    pub confirmed: u64,
    pub pushed_calls: u64,
    /// From where nothing of before can count any more to the close.
    pub longest_to_close: Nanos,
}

#[derive(Debug)]
struct Queued {
    at: Time,
    number: u64,
    event: Event,
}

impl World {
    pub fn new(seed: u64, without: Without, traced: bool) -> Self {
        let mut draws = Draws::of_seed(seed);
        let scenario = Scenario::draw(&mut draws);
        let clients: Vec<Client> = (0..scenario.clients)
            .map(|at| Client::new(at, 0, &scenario, &mut draws))
            .collect();
        let mut world = Self {
            black_holes: vec![[Time::ORIGIN; 2]; clients.len() + 1],
            without,
            now: Time::ORIGIN,
            clients,
            coordinator: Coordinator::new(),
            truth: Truth::default(),
            granted: HashSet::new(),
            unaware: HashSet::new(),
            order: None,
            pushes: 0,
            seen: Seen::default(),
            trace: traced.then(Vec::new),
            queue: BinaryHeap::new(),
            queued: 0,
            draws,
            scenario,
        };
        world.trace(|world| format!("{:#?}", world.scenario));
        for client in 0..world.clients.len() {
            world.think(client);
            world.push(client);
        }
        for (at, fault) in world.scenario.faults.clone() {
            world.later(at, Event::Fault(fault));
        }
        world.later(Time::ORIGIN + RENEW_EVERY, Event::Renew);
        world.later(world.scenario.healed, Event::Healed);
        world
    }

    /// Until the breaker is closed for good.
    pub fn run(&mut self) -> Result<(), Failure> {
        let (settled, closed_by) = (self.scenario.settled(), self.scenario.closed_by());
        while let Some(Reverse(next)) = self.queue.pop() {
            if next.at > closed_by {
                break;
            }
            self.now = self.now.max(next.at);
            self.seen.events += 1;
            self.happens(next.event)?;
            let is_closed = self.coordinator.record.breaker.phase == Phase::Closed;
            if self.now >= settled && is_closed {
                self.seen.longest_to_close = settled.until(self.now);
                return Ok(());
            }
        }
        let healed = self.scenario.healed;
        let (breaker, wait) = (&self.coordinator.record.breaker, healed.until(closed_by));
        self.fails(
            Harm::NotClosed,
            format!(
                "{:?} at epoch {} {wait} after the healing",
                breaker.phase, breaker.epoch
            ),
        )
    }

    fn happens(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Up(client, up) => {
                let ready = self.coordinator.pauses_until;
                if self.now < ready {
                    self.later(ready, event);
                } else if !self.coordinator.is_down {
                    return self.coordinator_hears(client, up);
                }
            }
            Event::Down(client, down) => {
                let ready = self.clients[client].pauses_until;
                if self.now < ready {
                    self.later(ready, event);
                } else {
                    return self.client_hears(client, down);
                }
            }
            Event::Wake { client, life, step } => {
                let it = &self.clients[client];
                if (it.life, it.step) != (life, step) {
                    return Ok(());
                }
                let ready = it.pauses_until;
                if self.now < ready {
                    self.later(ready, event);
                } else {
                    return self.client_wakes(client);
                }
            }
            Event::Flush { client, life } => {
                if self.clients[client].life == life
                    && self.now >= self.clients[client].pauses_until
                {
                    self.flush(client);
                }
            }
            Event::Fault(fault) => return self.goes_wrong(fault),
            Event::Written => {
                self.coordinator.disk.write(self.now);
                if !self.coordinator.is_down {
                    self.push_all();
                }
            }
            Event::Starts => self.coordinator_starts(),
            Event::Renew => {
                self.later(self.now + RENEW_EVERY, Event::Renew);
                if !self.coordinator.is_down && self.now >= self.coordinator.pauses_until {
                    self.push_all();
                }
            }
            Event::Healed => {
                self.trace(|_| "nothing goes wrong any more".to_owned());
                return self.goes_wrong(Fault::ClearOrder);
            }
        }
        Ok(())
    }

    fn goes_wrong(&mut self, fault: Fault) -> Result<(), Failure> {
        self.trace(|_| format!("{fault:?}"));
        let (now, healed) = (self.now, self.scenario.healed);
        let until = |lasts: Nanos| (now + lasts).min(healed);
        match fault {
            Fault::Pause { client, lasts } => self.clients[client].pauses_until = until(lasts),
            Fault::Die { client } => {
                let life = self.clients[client].life + 1;
                self.clients[client] = Client::new(client, life, &self.scenario, &mut self.draws);
                self.think(client);
            }
            Fault::BlackHole { client, up, lasts } => {
                self.black_holes[client][usize::from(up)] = until(lasts);
            }
            Fault::BlackHoleAll { up, lasts } => {
                let all = self.clients.len();
                self.black_holes[all][usize::from(up)] = until(lasts);
            }
            Fault::CoordinatorPauses { lasts } => self.coordinator.pauses_until = until(lasts),
            Fault::DiskStalls { lasts } => self.coordinator.disk.stalls_until = until(lasts),
            Fault::Restart { down, keeps } => {
                if !self.coordinator.is_down {
                    self.seen.restarts += 1;
                    self.coordinator.is_down = true;
                    self.coordinator.pauses_until = Time::ORIGIN;
                    self.coordinator.next_start_keeps = keeps;
                    self.later(until(down), Event::Starts);
                }
            }
            Fault::ForceOpen { .. }
            | Fault::ForceClosed { .. }
            | Fault::ClearOrder
            | Fault::Reset
                if self.coordinator.is_down =>
            {
                // Nobody takes the order; at the healing it is asked again.
                if now >= healed {
                    self.later(now + Nanos(1), Event::Healed);
                }
            }
            Fault::ForceOpen { lasts } => {
                return self.operator_orders(OverrideKind::ForceOpen, lasts);
            }
            Fault::ForceClosed { lasts } => {
                return self.operator_orders(OverrideKind::ForceClosed, lasts);
            }
            Fault::ClearOrder => {
                self.order = None;
                self.coordinator.clear_order(now);
                return self.follow();
            }
            Fault::Reset => {
                self.coordinator.reset(now);
                return self.follow();
            }
        }
        Ok(())
    }

    fn operator_orders(&mut self, kind: OverrideKind, lasts: Option<Nanos>) -> Result<(), Failure> {
        let expires = lasts.map(|lasts| self.now + lasts);
        self.order = Some((kind, expires));
        self.coordinator.order(kind, expires, self.now);
        self.follow()
    }

    fn coordinator_starts(&mut self) {
        self.coordinator.disk.write(self.now);
        self.coordinator.start(self.now, self.without);
        if self.coordinator.next_start_keeps == Keeps::Nothing {
            self.order = None;
        }
        self.truth.restart(self.coordinator.disk.open_until());
        self.trace(|world| {
            let it = &world.coordinator;
            let breaker = &it.record.breaker;
            format!(
                "run {} starts: {:?} at epoch {}, open until {:?}",
                it.run,
                breaker.phase,
                breaker.epoch,
                breaker.past().open_until
            )
        });
        self.push_all();
    }

    pub fn send_up(&mut self, client: usize, up: Up) {
        let event = Event::Up(client, up);
        self.send(client, 1, event);
    }

    pub fn send_down(&mut self, client: usize, down: Down) {
        let event = Event::Down(client, down);
        self.send(client, 0, event);
    }

    fn send(&mut self, client: usize, way: usize, event: Event) {
        let all = self.clients.len();
        let swallowed = self.now < self.black_holes[client][way].max(self.black_holes[all][way]);
        let faulty = self.now < self.scenario.healed;
        if swallowed || faulty && self.draws.happens(self.scenario.lost) {
            self.seen.lost += 1;
            self.trace(|_| format!("lost: {event:?}"));
            return;
        }
        let trip = self.scenario.trip(&mut self.draws, self.now);
        self.later(self.now + trip, event);
        if faulty && self.draws.happens(self.scenario.doubled) {
            self.seen.doubled += 1;
            let trip = self.scenario.trip(&mut self.draws, self.now);
            self.later(self.now + trip, event);
        }
    }

    pub fn later(&mut self, at: Time, event: Event) {
        self.queued += 1;
        self.queue.push(Reverse(Queued {
            at,
            number: self.queued,
            event,
        }));
    }

    pub fn context(&mut self) -> Context {
        Context {
            now: self.now,
            sample: self.draws.sample(),
            restarted: self.coordinator.restarted,
        }
    }

    pub fn trace(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>11.6} s  {}", self.now.0 as f64 / 1e9, line(self));
            self.trace
                .iter_mut()
                .for_each(|trace| trace.push(line.clone()));
        }
    }

    pub fn fails<T>(&mut self, harm: Harm, detail: String) -> Result<T, Failure> {
        self.trace(|_| format!("{harm:?}: {detail}"));
        Err(Failure {
            harm,
            at: self.now,
            detail,
        })
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
