//! One run: a fleet under one strategy, one dependency, one seed.
//!
//! The loop takes the next event and lets an operation take its next step. All that clients and
//! the coordinator share lies in [`Ground`]; the [`Mind`] is what differs between strategies.

mod course;
mod sudden;

use crate::{
    dependency::Dependency,
    measure::{End, Measure},
    operation::{Operation, Phase},
    queue::{Event, Kind, Queue},
    random::{Purpose, Stream},
    results::BreakerState,
    scenario::{Scenario, Traffic},
    strategy::{
        Strategy,
        alone::{Alone, minds},
        holdoff::Fleet,
    },
    timeline::{Sudden, Timeline},
};

/// One run.
pub struct World<'a> {
    pub(crate) ground: Ground<'a>,
    mind: Mind,
    sudden: Vec<Sudden>,
}

/// What does not depend on the strategy.
pub struct Ground<'a> {
    pub scenario: &'a Scenario,
    pub now: u64,
    pub end: u64,
    pub queue: Queue,
    pub operations: Vec<Operation>,
    /// Places of operations that are free.
    free: Vec<u32>,
    pub measure: Measure,
    dependency: Dependency,
    /// Shares of the fleet that are cut off from the dependency, with their ends.
    cuts: Vec<(u64, u64, f64)>,
    life: Vec<Stream>,
    pub network: Vec<Stream>,
    pub choice: Vec<Stream>,
    arrivals: Stream,
    /// By client: its breaker has opened since the first disturbance.
    has_opened: Vec<bool>,
}

enum Mind {
    Alone(Box<dyn Alone>),
    Fleet(Box<Fleet>),
}

impl<'a> World<'a> {
    pub fn new(
        scenario: &'a Scenario,
        strategy: Strategy,
        policy: &holdoff_decision::Policy,
        seed: u64,
    ) -> Self {
        let timeline = Timeline::new(scenario, seed);
        let ground = Ground::new(scenario, &timeline, seed);
        let count = (scenario.clients * scenario.operation.layers) as usize;
        let mind = match minds(strategy, scenario, count) {
            Some(minds) => Mind::Alone(minds),
            None => Mind::Fleet(Box::new(Fleet::new(scenario, policy, &timeline, seed))),
        };
        let mut world = Self {
            ground,
            mind,
            sudden: timeline.sudden,
        };
        world.plan_first();
        world
    }

    fn plan_first(&mut self) {
        let ground = &mut self.ground;
        for (index, sudden) in self.sudden.iter().enumerate() {
            ground.queue.plan(sudden.at, Kind::Sudden, index as u32, 0);
        }
        match ground.scenario.traffic {
            Traffic::Closed { .. } => {
                for client in 0..ground.scenario.clients {
                    ground.operations.push(Operation::idle(client));
                    ground.think(client);
                }
            }
            Traffic::Open { .. } => ground.plan_arrival(),
        }
    }

    /// Runs to the end. `progress` is told the simulated time, now and then.
    pub fn run(mut self, mut progress: impl FnMut(u64)) -> Measure {
        let end = self.ground.end;
        let mut steps = 0_u32;
        while let Some(event) = self.ground.queue.next(end) {
            self.look_until(event.at);
            self.ground.now = event.at;
            self.step(event);
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(1 << 16) {
                progress(event.at);
            }
        }
        self.look_until(end);
        self.ground.now = end;
        let ground = &mut self.ground;
        for operation in &ground.operations {
            if operation.is_in_hand() {
                ground.measure.operation_pending(operation.began);
            }
        }
        progress(end);
        self.ground.measure
    }

    /// Looks at the state at the ends of the buckets that are over.
    fn look_until(&mut self, now: u64) {
        while self.ground.measure.next_look() <= now {
            let at = self.ground.measure.next_look();
            let (open_share, state) = self.state(at);
            self.ground.measure.look(open_share, state);
        }
    }

    fn state(&self, at: u64) -> (f64, Option<BreakerState>) {
        match &self.mind {
            Mind::Alone(minds) => {
                let of = f64::from(self.ground.scenario.clients);
                (f64::from(minds.open()) / of, None)
            }
            Mind::Fleet(fleet) => {
                let state = fleet.state(at);
                let refuses = matches!(state, BreakerState::Open | BreakerState::HalfOpen);
                (f64::from(u8::from(refuses)), Some(state))
            }
        }
    }

    fn step(&mut self, event: Event) {
        match event.kind {
            Kind::Arrival => return self.arrive(),
            Kind::Sudden => return self.happen(event.whose),
            Kind::Flush | Kind::Report => {
                if let Mind::Fleet(fleet) = &mut self.mind {
                    fleet.deliver(&mut self.ground, &event);
                }
                return;
            }
            Kind::Begin
            | Kind::Act
            | Kind::Call
            | Kind::Done
            | Kind::Notice
            | Kind::Question
            | Kind::Answer
            | Kind::Late => {}
        }
        let index = event.whose as usize;
        if self.ground.operations[index].generation != event.generation {
            return;
        }
        match event.kind {
            Kind::Begin => self.begin(index),
            Kind::Act => self.act(index),
            Kind::Call => self.ground.reach(index),
            Kind::Done => self.call_ended(index),
            Kind::Notice => self.notice(index),
            Kind::Question => {
                if let Mind::Fleet(fleet) = &mut self.mind {
                    fleet.question(&mut self.ground, index);
                }
            }
            Kind::Answer | Kind::Late => {
                if let Mind::Fleet(fleet) = &mut self.mind {
                    let decision = match event.kind {
                        Kind::Answer => fleet.answer(&mut self.ground, index),
                        _ => fleet.late(&mut self.ground, index),
                    };
                    self.follow(index, decision);
                }
            }
            Kind::Arrival | Kind::Sudden | Kind::Flush | Kind::Report => {}
        }
    }
}

impl<'a> Ground<'a> {
    fn new(scenario: &'a Scenario, timeline: &Timeline, seed: u64) -> Self {
        let clients = scenario.clients;
        let streams = |purpose| {
            (0..clients)
                .map(|it| Stream::new(seed, it, purpose))
                .collect()
        };
        let end = scenario.duration.nanos();
        let cut = timeline
            .stretches
            .iter()
            .filter(|it| it.cut_from_dependency > 0.0);
        Self {
            scenario,
            now: 0,
            end,
            queue: Queue::default(),
            operations: Vec::new(),
            free: Vec::new(),
            measure: Measure::new(clients, end, timeline),
            dependency: Dependency::new(scenario, timeline.stretches.clone(), seed),
            cuts: cut
                .map(|it| (it.from, it.to, it.cut_from_dependency))
                .collect(),
            life: streams(Purpose::Life),
            network: streams(Purpose::Network),
            choice: streams(Purpose::Choice),
            arrivals: Stream::new(seed, u32::MAX, Purpose::Life),
            has_opened: vec![false; clients as usize],
        }
    }

    pub fn plan(&mut self, wait: u64, kind: Kind, index: usize) {
        let generation = self.operations[index].generation;
        let at = self.now.saturating_add(wait);
        self.queue.plan(at, kind, index as u32, generation);
    }

    /// A client thinks, and then has something to do.
    fn think(&mut self, client: u32) {
        if let Traffic::Closed { think } = self.scenario.traffic {
            let wait = self.life[client as usize].exponential(think.nanos());
            self.plan(wait, Kind::Begin, client as usize);
        }
    }

    fn plan_arrival(&mut self) {
        if let Traffic::Open { per_second } = self.scenario.traffic {
            let wait = self.arrivals.exponential((1e9 / per_second) as u64);
            self.queue.plan(self.now + wait, Kind::Arrival, 0, 0);
        }
    }

    /// The number of a layer of a client, among all of them.
    pub fn who(&self, client: u32, layer: u8) -> usize {
        (u32::from(layer) * self.scenario.clients + client) as usize
    }

    /// What is left of an operation's time; `None`: it has no end.
    pub fn time_left(&self, index: usize) -> Option<u64> {
        let deadline = self.scenario.operation.deadline.nanos();
        let ends = self.operations[index].began + deadline;
        (deadline > 0).then(|| ends.saturating_sub(self.now))
    }

    fn is_cut_off(&self, client: u32) -> bool {
        self.cuts.iter().any(|(from, to, share)| {
            let first = share * f64::from(self.scenario.clients);
            (*from..*to).contains(&self.now) && f64::from(client) < first
        })
    }

    /// A call goes out to the dependency.
    fn send(&mut self, index: usize) {
        let now = self.now;
        let operation = &mut self.operations[index];
        let client = operation.client;
        operation.sent = now;
        operation.phase = Phase::Calls;
        operation.move_on();
        self.measure.call_sent(now);
        let way = &self.scenario.network;
        let network = &mut self.network[client as usize];
        let hop = network.between(way.least.nanos(), way.most.nanos());
        let lost = network.chance(way.loss);
        if lost || self.is_cut_off(client) {
            self.plan_end(index, None, End::TimedOut);
        } else {
            self.plan(hop, Kind::Call, index);
        }
    }

    /// A call reaches the dependency.
    fn reach(&mut self, index: usize) {
        use crate::dependency::Fate;
        let fate = self.dependency.take(self.now);
        self.measure
            .call_arrived(self.now, self.dependency.is_down());
        let rejected = matches!(fate, Fate::Rejected | Fate::Throttled(_));
        self.measure.counts.rejected_for_load += u64::from(rejected);
        let (at, end) = match fate {
            Fate::Served(at) => (Some(at), End::Served),
            Fate::Failed(at) => (Some(at), End::Failed),
            Fate::Rejected => (Some(self.now), End::Failed),
            Fate::Throttled(wait) => (Some(self.now), End::Throttled(wait)),
            Fate::Silence => (None, End::TimedOut),
        };
        let client = self.operations[index].client;
        let way = &self.scenario.network;
        let network = &mut self.network[client as usize];
        let back = network.between(way.least.nanos(), way.most.nanos());
        let lost = network.chance(way.loss);
        let arrives = at.filter(|_| !lost).map(|at| at.saturating_add(back));
        self.plan_end(index, arrives, end);
    }

    /// The end of a call, or of its caller's patience.
    fn plan_end(&mut self, index: usize, arrives: Option<u64>, end: End) {
        let patience = self.scenario.operation.attempt_timeout.nanos();
        let operation = self.operations[index];
        let gives_up = operation.sent + patience;
        let gives_up = match self.scenario.operation.deadline.nanos() {
            0 => gives_up,
            deadline => gives_up.min(operation.began + deadline).max(self.now),
        };
        let (at, end) = match arrives {
            Some(at) if at <= gives_up => (at, end),
            Some(_) | None => {
                let in_vain = arrives.is_some() && end == End::Served;
                self.measure.counts.served_in_vain += u64::from(in_vain);
                (gives_up, End::TimedOut)
            }
        };
        self.operations[index].last = end;
        self.plan(at.saturating_sub(self.now), Kind::Done, index);
    }
}
