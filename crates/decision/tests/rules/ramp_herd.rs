//! The herd after an outage (scenario S2 of the benchmarks) on virtual time: N callers wait
//! for a dependency that is down for about half a minute and then serves C = N / 5 calls a
//! second, in order. It was used at half of that before. One probe is leased each second; the
//! third success closes the breaker, and those that wait are told.
//!
//! One way to the dependency takes 4 to 6 ms, to the coordinator 0.5 to 1.5 ms. With half a
//! second of work in its queue the dependency rejects, at a twentieth of the price of a call;
//! with two seconds it answers nothing. A caller that was served thinks for ten seconds on
//! average and calls again.
//! `cargo test -p holdoff-decision --test rules herd -- --nocapture` prints the figures.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use holdoff_decision::{
    Ask, DenialReason, MadeUnder, Nanos, Outcome, OutcomeKind, Permit, Policy, Previous, Question,
    Sample, Share, State, Tally, Time,
};

use crate::fleet::{FAIL, Fleet, OK, an_ask, at, secs};

/// Beyond so much work in its queue the dependency rejects.
const QUEUE: f64 = 0.5;
const REJECTION: f64 = 0.05;
/// Beyond so much it is silent.
const DROPS: f64 = 2.0;
const CALLER_TIMEOUT: Nanos = Nanos::from_secs(1);
const THINKS: f64 = 10.0;

#[derive(Clone, Copy, Debug)]
struct Scenario {
    clients: u32,
    /// Of the capacity, what it served before the outage.
    used: f64,
    /// Seconds between two probes.
    probes_every: f64,
    /// The callers ask within so many seconds after the close.
    asks_within: f64,
    /// Seconds until the dependency serves at full capacity again; a tenth at first.
    cold_for: f64,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ask,
    /// The delay is over.
    Start,
    /// At the dependency.
    Arrive,
    /// The report is at the coordinator.
    End,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    permit: Option<Permit>,
    /// The failure that it retries; `None`: its next call is a new one.
    failed: Option<MadeUnder>,
    /// Its first call after the outage went through.
    done: bool,
    started: Time,
    took: Nanos,
    ended: OutcomeKind,
    /// Since when it waits for this call to succeed.
    pending: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// The fullest second and tenth of a second, as parts of the capacity.
    peak_second: f64,
    peak_tenth: f64,
    /// Seconds from the recovery until half, and 99 %, of those that waited had begun.
    half: f64,
    nearly_all: f64,
    /// Seconds from the recovery until, for five seconds on, at most 1 % of the clients had a
    /// call that waited longer than one second.
    t99: f64,
    questions_per_client: f64,
    rejects: u32,
    closed: f64,
    ramp_ended: Option<f64>,
}

struct World {
    fleet: Fleet,
    scenario: Scenario,
    capacity: f64,
    clients: Vec<Client>,
    queue: BinaryHeap<Reverse<(Time, u32, Step)>>,
    /// When the dependency has done what is in its queue.
    free_at: f64,
    recovers: Time,
    closed: Time,
    seed: u64,
    starts: Vec<Time>,
    herd: Vec<Time>,
    /// Calls that waited longer than a second: when that began and when it ended.
    late: Vec<(Time, i32)>,
    questions: u32,
    rejects: u32,
    ramp_ended: Option<f64>,
}

const HEALTHY_FOR: f64 = 60.0;

impl World {
    fn new(scenario: Scenario) -> Self {
        let mut policy = Policy::default();
        policy.budget.floor_micros_per_second = 10_000_000_000_000;
        policy.budget.max_caller_share = Share::ONE;
        policy.breaker.open_for = secs(scenario.probes_every);
        policy.breaker.open_multiplier = 1.0;
        policy.breaker.probe_successes = 3;
        let capacity = f64::from(scenario.clients) / 5.0;
        let down = HEALTHY_FOR + 25.0 + ((37 * scenario.seed) % 100) as f64 / 10.0;
        let mut world = Self {
            fleet: Fleet::new(policy),
            scenario,
            capacity,
            clients: Vec::new(),
            queue: BinaryHeap::new(),
            free_at: down,
            recovers: at(down),
            closed: Time::ORIGIN,
            seed: scenario.seed ^ (u64::from(scenario.clients) << 32),
            starts: Vec::new(),
            herd: Vec::new(),
            late: Vec::new(),
            questions: 0,
            rejects: 0,
            ramp_ended: None,
        };
        world.is_healthy();
        world.fails();
        world.waits();
        world
    }

    fn is_healthy(&mut self) {
        let per_second = self.capacity * self.scenario.used;
        let mut begun = 0;
        for tenth in 0..(HEALTHY_FOR * 10.0) as u32 {
            self.fleet.at(f64::from(tenth) / 10.0);
            let due = (per_second * f64::from(tenth + 1) / 10.0) as u32 - begun;
            begun += due;
            let alone = due.min(5);
            for _ in 0..alone {
                let latency = Some(self.round_trip().saturating_add(secs(1.0 / self.capacity)));
                self.fleet.call(Outcome { latency, ..OK });
            }
            self.fleet.tally(Tally {
                epoch: 1,
                successes: due - alone,
                ..Tally::default()
            });
        }
    }

    /// The outage, up to the close.
    fn fails(&mut self) {
        self.fleet.at(HEALTHY_FOR);
        while self.fleet.state() == State::Closed {
            self.fleet.call(FAIL);
        }
        while self.fleet.state() != State::Recovering {
            let probe = self.fleet.first().map(|grant| grant.permit);
            match (probe, self.fleet.now >= self.recovers) {
                (Ok(permit), recovered) => {
                    self.fleet.now = self.fleet.now + self.round_trip();
                    let latency = Some(Nanos::from_millis(10));
                    let outcome = if recovered { OK } else { FAIL };
                    self.fleet.report(permit, Outcome { latency, ..outcome });
                }
                (Err(denial), _) => {
                    let wait = self.fleet.view().open_for.unwrap_or(Nanos::from_millis(1));
                    assert!(denial.retry_after.is_some(), "{denial}");
                    self.fleet.now = self.fleet.now + wait.max(Nanos(1));
                }
            }
        }
        self.closed = self.fleet.now;
    }

    fn waits(&mut self) {
        for client in 0..self.scenario.clients {
            self.clients.push(Client {
                permit: None,
                failed: Some(MadeUnder::Epoch(1)),
                done: false,
                started: Time::ORIGIN,
                took: Nanos::ZERO,
                ended: OutcomeKind::Success,
                pending: at(HEALTHY_FOR),
            });
            let told = secs(self.draw() * self.scenario.asks_within);
            let there_and_back = self.hop().saturating_add(self.hop());
            self.plan(told.saturating_add(there_and_back), client, Step::Ask);
        }
    }

    fn draw(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The way to or from the coordinator.
    fn hop(&mut self) -> Nanos {
        secs(0.0005 + 0.001 * self.draw())
    }

    /// The way to or from the dependency.
    fn way(&mut self) -> Nanos {
        secs(0.004 + 0.002 * self.draw())
    }

    fn round_trip(&mut self) -> Nanos {
        self.way().saturating_add(self.way())
    }

    fn plan(&mut self, wait: Nanos, client: u32, step: Step) {
        self.queue
            .push(Reverse((self.fleet.now + wait, client, step)));
    }

    fn run(mut self, seconds: f64) -> Figures {
        let end = self.recovers + secs(seconds);
        while let Some(Reverse((now, client, step))) = self.queue.pop() {
            if now > end {
                break;
            }
            self.fleet.now = now;
            if self.ramp_ended.is_none() && self.fleet.state() != State::Recovering {
                self.ramp_ended = Some(self.since_recovery(now));
            }
            match step {
                Step::Ask => self.ask(client),
                Step::Start => self.start(client),
                Step::Arrive => self.arrive(client),
                Step::End => self.end(client),
            }
        }
        self.fleet.now = end;
        for client in 0..self.clients.len() {
            self.is_late(client);
        }
        self.figures()
    }

    fn since_recovery(&self, at: Time) -> f64 {
        at.since(self.recovers).as_secs_f64()
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
                            | DenialReason::CallerFault
                    ),
                    "{denial}"
                );
                let wait = denial.retry_after.unwrap();
                let there_and_back = hop.saturating_add(self.hop());
                self.plan(wait.saturating_add(there_and_back), client, Step::Ask);
            }
        }
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
        let way = self.way();
        self.plan(way, client, Step::Arrive);
    }

    fn capacity_at(&self, seconds: f64) -> f64 {
        let warm = (seconds - self.recovers.0 as f64 / 1e9) / self.scenario.cold_for;
        match warm.is_nan() || warm >= 1.0 {
            true => self.capacity,
            false => self.capacity * (0.1 + 0.9 * warm.max(0.0)),
        }
    }

    fn arrive(&mut self, client: u32) {
        let now = self.fleet.now;
        let seconds = now.0 as f64 / 1e9;
        self.free_at = self.free_at.max(seconds);
        let service = 1.0 / self.capacity_at(self.free_at);
        let backlog = self.free_at - seconds;
        let way = self.way();
        let (answered, kind) = if backlog >= DROPS {
            let left = CALLER_TIMEOUT.0 - now.since(self.clients[client as usize].started).0;
            (Nanos(left), OutcomeKind::Timeout)
        } else if backlog >= QUEUE {
            self.rejects += 1;
            self.free_at += REJECTION * service;
            (way, OutcomeKind::Failure)
        } else {
            self.free_at += service;
            (
                secs(self.free_at - seconds).saturating_add(way),
                OutcomeKind::Success,
            )
        };
        let state = &mut self.clients[client as usize];
        state.ended = kind;
        state.took = (now + answered).since(state.started);
        let hop = self.hop();
        self.plan(answered.saturating_add(hop), client, Step::End);
    }

    fn end(&mut self, client: u32) {
        let kind = self.clients[client as usize].ended;
        let permit = self.clients[client as usize].permit.unwrap();
        if kind == OutcomeKind::Success {
            let latency = Some(self.clients[client as usize].took);
            self.fleet.report(permit, Outcome { latency, ..OK });
            self.is_late(client as usize);
            let think = secs(-THINKS * (1.0 - self.draw()).ln());
            let state = &mut self.clients[client as usize];
            state.failed = None;
            state.pending = self.fleet.now + think;
            let hop = self.hop();
            self.plan(think.saturating_add(hop), client, Step::Ask);
        } else {
            self.clients[client as usize].failed = Some(MadeUnder::Permit(permit));
            self.plan(Nanos(1), client, Step::Ask);
        }
    }

    /// Notes that this client's call was waited for longer than a second.
    fn is_late(&mut self, client: usize) {
        let late = self.clients[client].pending + secs(1.0);
        if late < self.fleet.now {
            self.late.push((late, 1));
            self.late.push((self.fleet.now, -1));
        }
    }

    fn figures(mut self) -> Figures {
        let peak = |within: f64| {
            let (mut window, mut most) = (VecDeque::new(), 0);
            for start in &self.starts {
                window.push_back(*start);
                while start.since(window[0]) >= secs(within) {
                    window.pop_front();
                }
                most = most.max(window.len());
            }
            most as f64 / within / self.capacity
        };
        let herd = |share: f64| {
            let at = (f64::from(self.scenario.clients) * share).ceil() as usize - 1;
            let when = self.herd.get(at);
            when.map_or(f64::INFINITY, |when| self.since_recovery(*when))
        };
        let mut figures = Figures {
            peak_second: peak(1.0),
            peak_tenth: peak(0.1),
            half: herd(0.5),
            nearly_all: herd(0.99),
            t99: 0.0,
            questions_per_client: f64::from(self.questions) / f64::from(self.scenario.clients),
            rejects: self.rejects,
            closed: self.since_recovery(self.closed),
            ramp_ended: self.ramp_ended,
        };
        self.late.sort_unstable();
        figures.t99 = self.t99();
        figures
    }

    fn t99(&self) -> f64 {
        let most = (self.scenario.clients / 100) as i32;
        let (mut waiting, mut since) = (0, self.recovers);
        for (at, change) in &self.late {
            let few = waiting <= most;
            if few && at.since(since) >= secs(5.0) && *at > self.recovers {
                break;
            }
            waiting += change;
            if (waiting <= most) != few || waiting > most {
                since = (*at).max(self.recovers);
            }
        }
        match waiting <= most {
            true => self.since_recovery(since),
            false => f64::INFINITY,
        }
    }
}

/// Medians of the times, the largest peaks, the mean of counts, over seeds from 1 on.
fn show(title: &str, scenario: Scenario, seeds: u64) -> Figures {
    let mut all: Vec<Figures> = (1..=seeds)
        .map(|seed| World::new(Scenario { seed, ..scenario }).run(45.0))
        .collect();
    let mut median = |of: fn(&Figures) -> f64| {
        all.sort_by(|one, other| of(one).total_cmp(&of(other)));
        (of(&all[(all.len() - 1) / 2]) + of(&all[all.len() / 2])) / 2.0
    };
    let figures = Figures {
        half: median(|of| of.half),
        nearly_all: median(|of| of.nearly_all),
        t99: median(|of| of.t99),
        closed: median(|of| of.closed),
        questions_per_client: median(|of| of.questions_per_client),
        ramp_ended: Some(median(|of| of.ramp_ended.unwrap_or(f64::INFINITY))),
        ..Figures::default()
    };
    let most = |of: fn(&Figures) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let figures = Figures {
        peak_second: most(|of| of.peak_second),
        peak_tenth: most(|of| of.peak_tenth),
        rejects: most(|of| f64::from(of.rejects)) as u32,
        ..figures
    };
    let least = all.iter().map(|of| of.t99).fold(f64::INFINITY, f64::min);
    println!(
        "{title}, P = {} s, N = {}: T99 {:.2} s ({least:.2} to {:.2}); half begun in {:.2} s, \
         99 % in {:.2} s; closed after {:.2} s; fullest second {:.2} C, tenth {:.2} C; {:.2} \
         questions a client; {} rejects; ramp over after {:.1} s",
        scenario.probes_every,
        scenario.clients,
        figures.t99,
        most(|of| of.t99),
        figures.half,
        figures.nearly_all,
        figures.closed,
        figures.peak_second,
        figures.peak_tenth,
        figures.questions_per_client,
        figures.rejects,
        figures.ramp_ended.unwrap_or(f64::INFINITY),
    );
    figures
}

fn scenario(clients: u32) -> Scenario {
    Scenario {
        clients,
        used: 0.5,
        probes_every: 1.0,
        asks_within: 0.0,
        cold_for: 0.0,
        seed: 0,
    }
}

fn seeds_for(clients: u32) -> u64 {
    match clients {
        ..=1_000 => 20,
        1_001..=10_000 => 10,
        _ => 6,
    }
}

#[test]
fn herd_is_back_within_8_s_however_large_it_is_and_never_above_1_15_of_the_capacity() {
    for (probes_every, within) in [(1.0, 8.0), (0.25, 7.6)] {
        for clients in [100, 1_000, 10_000, 100_000] {
            let pushed = Scenario {
                probes_every,
                ..scenario(clients)
            };
            let figures = show("pushed", pushed, seeds_for(clients));
            assert_eq!(figures.rejects, 0);
            assert!(figures.ramp_ended.unwrap() <= 12.0, "{figures:?}");
            // Of a hundred, 1 % is one, and a second is twenty calls.
            let (within, peak) = match clients {
                100 => (within + 0.2, 1.3),
                _ => (within, 1.15),
            };
            assert!(figures.t99 <= within, "{figures:?}");
            assert!(figures.peak_second <= peak, "{figures:?}");
        }
    }
}

#[test]
fn herd_that_polls_or_used_all_of_the_capacity_comes_back_as_well() {
    for clients in [1_000, 10_000] {
        let polled = Scenario {
            asks_within: 2.0,
            ..scenario(clients)
        };
        let figures = show("asks within 2 s", polled, seeds_for(clients));
        assert!(figures.peak_second <= 1.15, "{figures:?}");
        assert!(figures.t99 <= 8.5, "{figures:?}");
        let all_used = Scenario {
            used: 1.0,
            ..scenario(clients)
        };
        let figures = show("X = C", all_used, seeds_for(clients));
        assert!(figures.peak_second <= 1.15, "{figures:?}");
        assert!(figures.t99 <= 8.0, "{figures:?}");
    }
}

#[test]
fn herd_does_not_break_a_dependency_that_comes_back_cold() {
    // Those who ask a little later ask when it has been seen how slow it is at first.
    for (clients, asks_within) in [(1_000, 0.0), (10_000, 0.0), (1_000, 1.5), (10_000, 1.5)] {
        let cold = Scenario {
            cold_for: 20.0,
            asks_within,
            ..scenario(clients)
        };
        let title = format!("cold for 20 s, asks within {asks_within} s");
        let figures = show(&title, cold, seeds_for(clients));
        // At a tenth of 200 a second the queue is ten calls long.
        let more = if asks_within > 0.0 { 20 } else { 0 };
        assert!(figures.rejects <= clients / 100 + more, "{figures:?}");
        assert!(figures.t99 <= 17.5, "{figures:?}");
    }
}
