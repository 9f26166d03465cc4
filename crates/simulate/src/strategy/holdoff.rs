//! Clients with sessions to one coordinator, which is the service's own rules over records of its
//! own.
//!
//! A client does what the client libraries do: first attempts go, or are refused, on the state that
//! was pushed; retries ask, and carry the outcome before; told times are waited for, or the call is
//! given up; a place is dropped when a trip is pushed before its time; without an answer in time
//! the client decides by itself, under the same rules over what it alone has seen.
//!
//! What is left out: callers without a session, priorities, hedges, and costs.
//!
//! | part | |
//! |---|---|
//! | [`coordinator`] | the records, and what is pushed of them |
//! | [`session`] | what a client has heard, and whether it is connected |
//! | [`asking`] | questions, on their way and answered |
//! | [`holding`] | questions that a large fleet holds back |
//! | [`reports`] | outcomes on their way |
//! | [`lone`] | decisions without the coordinator |

mod asking;
mod coordinator;
mod holding;
mod lone;
mod reports;
mod session;

use holdoff_decision::{Denial, Grant, Nanos, Outcome, OutcomeKind, Permit, Policy, State};

use self::{
    coordinator::Coordinator,
    holding::Held,
    lone::Lone,
    reports::Report,
    session::{Outage, Session, Word, outages},
};
use super::alone::Decision;
use crate::{
    measure::End,
    random::{Purpose, Stream, mixed},
    results::BreakerState,
    scenario::{OnDenied, Scenario},
    timeline::Timeline,
    world::Ground,
};

/// A time that is told is waited for no longer, and asked about no sooner.
const WAIT_MAX: u64 = 600_000_000_000;
const WAIT_MIN: u64 = 10_000_000;

/// All clients, and the coordinator.
pub struct Fleet {
    policy: Policy,
    /// Of clients on their own.
    lone_policy: Policy,
    waits: bool,
    persistent: bool,
    clients: usize,
    layers: usize,
    seed: u64,
    coordinator: Coordinator,
    /// By client and layer.
    sessions: Vec<Session>,
    /// By operation and layer.
    pursuits: Vec<Pursuit>,
    calls_named: u64,
    /// On their way; the free ones are empty.
    reports: Vec<Report>,
    reports_free: Vec<u32>,
    outages: Vec<Outage>,
    /// The ways of each client to the coordinator: what is drawn, and their shortest and how much
    /// longer they may be.
    ways: Vec<Stream>,
    way: (u64, u64),
}

/// What one service on the way of an operation knows of its call.
#[derive(Clone, Copy, Debug)]
struct Pursuit {
    /// Names the call, so that a question asked twice is answered once.
    name: u64,
    /// Under what its last attempt was made, or is to be made.
    made: Made,
    /// In which that was granted.
    epoch: u64,
    /// Asks again just before it goes.
    confirms: bool,
    /// How its last attempt ended, and whether that is still to be told.
    outcome: Outcome,
    untold: bool,
    asked_at: u64,
    asks_to_confirm: bool,
    reply: Option<Reply>,
    /// Its first attempt was counted by the client's own record.
    counted_here: bool,
    held: Held,
}

#[derive(Clone, Copy, Debug)]
enum Made {
    Nothing,
    OnState(u64),
    /// A permit, and the run of the coordinator that gave it.
    Fleet(Permit, u32),
    Lone {
        permit: Permit,
        /// The epoch last heard of when it began; 0: none.
        begun_in: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Reply {
    verdict: Result<Grant, Denial>,
    epoch: u64,
    boot: u32,
}

impl Pursuit {
    const fn new(name: u64) -> Self {
        Self {
            name,
            made: Made::Nothing,
            epoch: 0,
            confirms: false,
            outcome: Outcome::of(OutcomeKind::Success),
            untold: false,
            asked_at: 0,
            asks_to_confirm: false,
            reply: None,
            counted_here: false,
            held: Held::No,
        }
    }
}

impl Fleet {
    pub fn new(scenario: &Scenario, policy: &Policy, timeline: &Timeline, seed: u64) -> Self {
        let (clients, layers) = (scenario.clients, scenario.operation.layers as usize);
        Self {
            policy: policy.clone(),
            lone_policy: lone::policy(policy, clients),
            waits: scenario.operation.persistent || scenario.operation.on_denied == OnDenied::Wait,
            persistent: scenario.operation.persistent,
            clients: clients as usize,
            layers,
            seed,
            coordinator: Coordinator::new(scenario, policy, layers, seed),
            sessions: vec![Session::default(); clients as usize * layers],
            pursuits: Vec::new(),
            calls_named: 0,
            reports: Vec::new(),
            reports_free: Vec::new(),
            outages: outages(timeline),
            ways: (0..clients)
                .map(|client| Stream::new(seed, client, Purpose::Coordinator))
                .collect(),
            way: {
                let way = &scenario.coordinator;
                (way.least.nanos(), way.most.nanos() - way.least.nanos())
            },
        }
    }

    /// A call begins at this service on the way of an operation.
    pub fn begin(&mut self, index: usize, layer: u8) {
        self.calls_named += 1;
        let place = index * self.layers + usize::from(layer);
        let name = mixed(self.calls_named);
        if self.pursuits.len() <= place {
            self.pursuits.resize(place + 1, Pursuit::new(0));
        }
        self.pursuits[place] = Pursuit::new(name);
    }

    /// The call that begins was under way on a session that broke.
    pub fn made_on_session(&mut self, ground: &Ground<'_>, index: usize) {
        let (place, who) = self.place(ground, index);
        let epoch = self.heard(who, ground.now).epoch;
        self.pursuits[place].made = Made::OnState(epoch);
    }

    /// May this attempt go?
    pub fn seek(&mut self, ground: &mut Ground<'_>, index: usize) -> Decision {
        let (place, who) = self.place(ground, index);
        let operation = ground.operations[index];
        if operation.attempt() > 1 {
            return match self.pursuits[place].outcome.retried_below {
                true => {
                    self.tell_last(ground, index);
                    Decision::Refused
                }
                false => self.seek_again(ground, index),
            };
        }
        match self.word(who, ground.now) {
            Word::Go(epoch) => {
                self.pursuits[place].made = Made::OnState(epoch);
                Decision::Go
            }
            Word::Refuse(left) => self.denied(ground, index, Some(Nanos(left)), false),
            Word::Ask => self.ask(ground, index, false),
        }
    }

    /// The wait before an attempt is over: does its place still hold?
    pub fn ready(&mut self, ground: &mut Ground<'_>, index: usize) -> Decision {
        let (place, who) = self.place(ground, index);
        let pursuit = self.pursuits[place];
        let heard = self.heard(who, ground.now);
        let attempt = ground.operations[index].attempt();
        match pursuit.made {
            Made::Fleet(..) => {}
            Made::Lone { permit, .. } if pursuit.confirms => {
                return self.confirm_alone(ground, index, permit);
            }
            Made::Lone { .. } => {
                self.begins_alone(place, who, ground.now);
                return Decision::Go;
            }
            Made::Nothing | Made::OnState(_) => return Decision::Go,
        }
        if let Some(left) = heard.tripped_since(pursuit.epoch, attempt, ground.now) {
            self.give_back(ground, index);
            return self.denied(ground, index, Some(Nanos(left)), true);
        }
        match pursuit.confirms && !heard.stands_by(pursuit.epoch, ground.now) {
            true => self.ask(ground, index, true),
            false => Decision::Go,
        }
    }

    /// A permit that will not be used.
    fn give_back(&mut self, ground: &mut Ground<'_>, index: usize) {
        let (place, who) = self.place(ground, index);
        let made = std::mem::replace(&mut self.pursuits[place].made, Made::Nothing);
        self.pursuits[place].untold = false;
        self.report(ground, who, made, &Outcome::of(OutcomeKind::Cancelled));
    }

    /// An attempt has ended.
    pub fn ended(&mut self, ground: &mut Ground<'_>, index: usize) {
        let (place, who) = self.place(ground, index);
        let operation = ground.operations[index];
        let outcome = outcome(operation.last, ground.now - operation.sent);
        match operation.last {
            End::Served => {
                let made = self.pursuits[place].made;
                self.report(ground, who, made, &outcome);
            }
            End::Failed | End::Throttled(_) | End::TimedOut | End::GivenUpBelow { .. } => {
                let pursuit = &mut self.pursuits[place];
                pursuit.outcome = outcome;
                pursuit.untold = true;
                pursuit.held = Held::No;
            }
        }
    }

    /// The last attempt has ended, and no question will tell how.
    pub fn tell_last(&mut self, ground: &mut Ground<'_>, index: usize) {
        let (place, who) = self.place(ground, index);
        let pursuit = self.pursuits[place];
        if std::mem::replace(&mut self.pursuits[place].untold, false) {
            self.report(ground, who, pursuit.made, &pursuit.outcome);
        }
    }

    /// What follows from a no. `was_granted`: a promise that did not hold.
    fn denied(
        &mut self,
        ground: &mut Ground<'_>,
        index: usize,
        retry_after: Option<Nanos>,
        was_granted: bool,
    ) -> Decision {
        let operation = ground.operations[index];
        let (place, _) = self.place(ground, index);
        self.pursuits[place].held.is_denied();
        let Some(wait) = retry_after.filter(|_| self.waits) else {
            self.tell_last(ground, index);
            return Decision::Refused;
        };
        if was_granted && operation.attempt() > 1 {
            if !self.persistent {
                return Decision::Refused;
            }
            // The call ends, and what must be done is a new one.
            *ground.operations[index].attempt_mut() = 1;
        }
        if was_granted {
            self.begin(index, operation.layer);
        }
        Decision::AskAfter(wait.0.clamp(WAIT_MIN, WAIT_MAX))
    }

    pub fn longest_delay(&self) -> u64 {
        self.policy.retry.max_delay.0
    }

    /// A client starts anew: what it knew and had not told is gone.
    pub fn forget(&mut self, who: usize) {
        self.sessions[who] = Session::new_process();
    }

    /// The state that callers of the dependency itself see.
    pub fn state(&self, at: u64) -> BreakerState {
        match self.coordinator.state(self.layers - 1, at) {
            None => BreakerState::Away,
            Some(State::Closed | State::ForcedClosed) => BreakerState::Closed,
            Some(State::Open | State::ForcedOpen) => BreakerState::Open,
            Some(State::HalfOpen) => BreakerState::HalfOpen,
            Some(State::Recovering) => BreakerState::Recovering,
        }
    }

    pub fn coordinator_goes(&mut self, now: u64) {
        self.coordinator.go(now);
    }

    pub fn coordinator_returns(&mut self, ground: &mut Ground<'_>, keeps_state: bool) {
        self.coordinator.come_back(keeps_state, ground.now);
        ground.measure.counts.pushes += (self.clients * self.layers) as u64;
    }

    /// The pursuit and the session of the service that decides now.
    fn place(&self, ground: &Ground<'_>, index: usize) -> (usize, usize) {
        let operation = &ground.operations[index];
        let place = index * self.layers + usize::from(operation.layer);
        (place, ground.who(operation.client, operation.layer))
    }

    fn layer_of(&self, who: usize) -> usize {
        who / self.clients
    }

    fn client_of(&self, who: usize) -> usize {
        who % self.clients
    }
}

fn outcome(end: End, latency: u64) -> Outcome {
    let kind = match end {
        End::Served => OutcomeKind::Success,
        End::Failed | End::GivenUpBelow { .. } => OutcomeKind::Failure,
        End::Throttled(_) => OutcomeKind::Throttled,
        End::TimedOut => OutcomeKind::Timeout,
    };
    Outcome {
        latency: Some(Nanos(latency)),
        pushback: match end {
            End::Throttled(wait) => wait.map(Nanos),
            End::Served | End::Failed | End::TimedOut | End::GivenUpBelow { .. } => None,
        },
        retried_below: end == End::GivenUpBelow { retried: true },
        ..Outcome::of(kind)
    }
}

impl Session {
    fn lone(&mut self, now: u64) -> &mut Lone {
        self.lone.get_or_insert_with(|| Box::new(Lone::new(now)))
    }
}
