//! The herd after an outage (scenario S2 of the benchmarks) on virtual time: N callers wait,
//! the dependency serves C calls a second in order, and the breaker closes.
//! `cargo test -p holdoff-decision --test rules herd -- --nocapture` prints the figures.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use holdoff_decision::{
    Ask, DenialReason, MadeUnder, Nanos, Outcome, Permit, Policy, Previous, Question, Sample,
    Share, State, Tally, Time,
};

use crate::fleet::{FAIL, Fleet, OK, an_ask, secs};

/// There and back again, without service.
const ROUND_TRIP: Nanos = Nanos::from_millis(10);
/// Beyond so much work in its queue the dependency rejects, at a twentieth of the price.
const QUEUE: Nanos = Nanos::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct Scenario {
    clients: u32,
    /// Calls a second that the dependency can serve.
    capacity: f64,
    /// Of it, what it served before the outage.
    used: f64,
    /// The callers ask within so long after the close.
    asks_within: f64,
    /// Seconds until the dependency serves at full capacity again; a tenth at first.
    cold_for: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ask,
    /// The delay is over.
    Start,
    End {
        good: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Client {
    permit: Option<Permit>,
    /// The failure that it retries; `None`: its next call is a new one.
    failed: Option<MadeUnder>,
    /// Its first call after the outage went through.
    done: bool,
    started: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// The fullest second and tenth of a second, as parts of the capacity.
    peak_second: f64,
    peak_tenth: f64,
    /// Seconds until half, and 99 %, of those that waited had begun.
    half: f64,
    nearly_all: f64,
    questions_per_client: f64,
    rejects: u32,
    ramp_ended: Option<f64>,
}

struct World {
    fleet: Fleet,
    scenario: Scenario,
    clients: Vec<Client>,
    queue: BinaryHeap<Reverse<(Time, u32, Step)>>,
    free_at: f64,
    closed: Time,
    seed: u64,
    starts: Vec<Time>,
    herd: Vec<Time>,
    questions: u32,
    rejects: u32,
    ramp_ended: Option<f64>,
}

impl World {
    fn new(scenario: Scenario) -> Self {
        let mut policy = Policy::default();
        policy.budget.floor_micros_per_second = 10_000_000_000_000;
        policy.budget.max_caller_share = Share::ONE;
        policy.breaker.probe_successes = 1;
        let mut fleet = Fleet::new(policy);
        let per_second = scenario.capacity * scenario.used;
        for tenth in 0..100 {
            fleet.at(f64::from(tenth) / 10.0);
            fleet.tally(Tally {
                epoch: 1,
                successes: (per_second / 10.0) as u32 - 5,
                ..Tally::default()
            });
            for _ in 0..5 {
                let latency = Some(ROUND_TRIP.saturating_add(secs(1.0 / scenario.capacity)));
                fleet.call(Outcome { latency, ..OK });
            }
        }
        while fleet.state() == State::Closed {
            fleet.call(FAIL);
        }
        fleet.at(40.0);
        fleet.call(OK);
        assert_eq!(fleet.state(), State::Recovering);
        let waiting = Client {
            permit: None,
            failed: Some(MadeUnder::Epoch(1)),
            done: false,
            started: Time::ORIGIN,
        };
        let closed = fleet.now;
        let mut world = Self {
            fleet,
            scenario,
            clients: vec![waiting; scenario.clients as usize],
            queue: BinaryHeap::new(),
            free_at: closed.0 as f64 / 1e9,
            closed,
            seed: u64::from(scenario.clients),
            starts: Vec::new(),
            herd: Vec::new(),
            questions: 0,
            rejects: 0,
            ramp_ended: None,
        };
        for client in 0..scenario.clients {
            let when = world.draw() * scenario.asks_within;
            world.plan(secs(when), client, Step::Ask);
        }
        world
    }

    fn draw(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The way to or from the coordinator takes 0.5 to 1.5 ms.
    fn hop(&mut self) -> Nanos {
        secs(0.0005 + 0.001 * self.draw())
    }

    fn plan(&mut self, wait: Nanos, client: u32, step: Step) {
        self.queue
            .push(Reverse((self.fleet.now + wait, client, step)));
    }

    fn run(mut self, seconds: f64) -> Figures {
        let end = self.closed + secs(seconds);
        while let Some(Reverse((now, client, step))) = self.queue.pop() {
            if now > end {
                break;
            }
            self.fleet.now = now;
            if self.ramp_ended.is_none() && self.fleet.state() != State::Recovering {
                self.ramp_ended = Some(now.since(self.closed).as_secs_f64());
            }
            match step {
                Step::Ask => self.ask(client),
                Step::Start => self.start(client),
                Step::End { good } => self.end(client, good),
            }
        }
        self.figures()
    }

    fn ask(&mut self, client: u32) {
        self.questions += u32::from(!self.clients[client as usize].done);
        self.fleet.sample = Sample {
            jitter: self.draw(),
            spread: self.draw(),
        };
        let question = match self.clients[client as usize].failed {
            None => Question::First,
            Some(made_under) => Question::Retry {
                attempt: 2,
                previous: Previous {
                    made_under,
                    outcome: FAIL,
                },
            },
        };
        let ask = Ask {
            caller: u64::from(client),
            ..an_ask(question)
        };
        let hop = self.hop();
        match self.fleet.ask(ask).verdict {
            Ok(grant) => {
                self.clients[client as usize].permit = Some(grant.permit);
                self.plan(grant.delay.saturating_add(hop), client, Step::Start);
            }
            Err(denial) => {
                assert!(
                    matches!(
                        denial.reason,
                        DenialReason::Recovering
                            | DenialReason::CalendarFull
                            | DenialReason::BreakerOpen
                            | DenialReason::ProbeInProgress
                    ),
                    "{denial}"
                );
                let wait = denial.retry_after.unwrap();
                self.plan(wait.saturating_add(hop), client, Step::Ask);
            }
        }
    }

    fn capacity_now(&self) -> f64 {
        let warm = self.fleet.now.since(self.closed).as_secs_f64() / self.scenario.cold_for;
        let part = if warm.is_nan() {
            1.0
        } else {
            0.1 + 0.9 * warm.min(1.0)
        };
        self.scenario.capacity * part
    }

    fn start(&mut self, client: u32) {
        let now = self.fleet.now;
        self.starts.push(now);
        let state = &mut self.clients[client as usize];
        state.started = now;
        if !state.done {
            state.done = true;
            self.herd.push(now);
        }
        let seconds = now.0 as f64 / 1e9;
        let service = 1.0 / self.capacity_now();
        self.free_at = self.free_at.max(seconds);
        let good = self.free_at - seconds < QUEUE.as_secs_f64();
        self.free_at += if good { service } else { 0.05 * service };
        self.rejects += u32::from(!good);
        let waits = if good {
            secs(self.free_at - seconds)
        } else {
            Nanos::ZERO
        };
        self.plan(waits.saturating_add(ROUND_TRIP), client, Step::End { good });
    }

    fn end(&mut self, client: u32, good: bool) {
        let permit = self.clients[client as usize].permit.unwrap();
        if good {
            let latency = self.fleet.now.since(self.clients[client as usize].started);
            let latency = Some(latency);
            self.fleet.report(permit, Outcome { latency, ..OK });
            self.clients[client as usize].failed = None;
            // It thinks for ten seconds on average.
            let think = -10.0 * (1.0 - self.draw()).ln();
            self.plan(secs(think), client, Step::Ask);
        } else {
            self.clients[client as usize].failed = Some(MadeUnder::Permit(permit));
            self.plan(Nanos(1), client, Step::Ask);
        }
    }

    fn figures(&self) -> Figures {
        let peak = |within: f64| {
            let (mut window, mut most) = (VecDeque::new(), 0);
            for start in &self.starts {
                window.push_back(*start);
                while start.since(window[0]) >= secs(within) {
                    window.pop_front();
                }
                most = most.max(window.len());
            }
            most as f64 / within / self.scenario.capacity
        };
        let herd = |share: f64| {
            let at = (f64::from(self.scenario.clients) * share).ceil() as usize - 1;
            let when = self.herd.get(at);
            when.map_or(f64::INFINITY, |when| when.since(self.closed).as_secs_f64())
        };
        Figures {
            peak_second: peak(1.0),
            peak_tenth: peak(0.1),
            half: herd(0.5),
            nearly_all: herd(0.99),
            questions_per_client: f64::from(self.questions) / f64::from(self.scenario.clients),
            rejects: self.rejects,
            ramp_ended: self.ramp_ended,
        }
    }
}

fn show(title: &str, scenario: Scenario) -> Figures {
    let figures = World::new(scenario).run(40.0);
    let Figures {
        peak_second,
        peak_tenth,
        half,
        nearly_all,
        questions_per_client,
        rejects,
        ramp_ended,
    } = figures;
    println!(
        "{title}, N = {}: fullest second {peak_second:.2} C, tenth {peak_tenth:.2} C; half begun \
         in {half:.2} s, 99 % in {nearly_all:.2} s; {questions_per_client:.2} questions a client; \
         {rejects} rejects; ramp over after {ramp_ended:?} s",
        scenario.clients
    );
    figures
}

fn scenario(clients: u32) -> Scenario {
    Scenario {
        clients,
        capacity: f64::from(clients) / 5.0,
        used: 1.0,
        asks_within: 0.002,
        cold_for: 0.0,
    }
}

#[test]
fn herd_that_waits_is_admitted_along_one_curve() {
    for clients in [1_000, 10_000] {
        let figures = show("X = C, pushed", scenario(clients));
        assert!(figures.peak_second <= 1.15, "{figures:?}");
        assert!(figures.nearly_all <= 8.0, "{figures:?}");
        assert_eq!(figures.rejects, 0);
    }
}

#[test]
fn herd_is_admitted_as_fast_where_half_the_capacity_was_used_before() {
    for clients in [1_000, 10_000] {
        let half = Scenario {
            used: 0.5,
            ..scenario(clients)
        };
        let figures = show("X = C / 2, pushed", half);
        assert!(figures.peak_second <= 1.15, "{figures:?}");
        assert!(figures.nearly_all <= 8.5, "{figures:?}");
        let polled = Scenario {
            asks_within: 2.0,
            ..half
        };
        let figures = show("X = C / 2, asked within 2 s", polled);
        assert!(figures.peak_second <= 1.15, "{figures:?}");
        assert!(figures.nearly_all <= 9.0, "{figures:?}");
    }
}

#[test]
fn herd_does_not_break_a_dependency_that_comes_back_cold() {
    let cold = Scenario {
        used: 0.5,
        cold_for: 20.0,
        ..scenario(10_000)
    };
    let figures = show("cold for 20 s", cold);
    assert!(figures.rejects <= 100, "{figures:?}");
    assert!(figures.nearly_all <= 20.0, "{figures:?}");
}
