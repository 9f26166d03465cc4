//! What one seed is about: a policy, a fleet, a network, an outage, and a plan of faults, all
//! drawn before anything happens. And the bound within which its breaker must be closed again.

use holdoff_decision::{
    Nanos, Policy, Share, Time,
    policy::{
        AppliesTo, Detect, Jitter, MaxAttempts, PushbackScope, RetryRate, Window, WindowSize,
    },
    standing::GO_VALID_FOR,
};

use super::draws::Draws;

/// The longest that a message is under way, while there are faults.
const LONGEST_TRIP_MS: u64 = 2_500;
/// An attempt that hangs is given up after so long.
pub const ATTEMPT_TIMEOUT: Nanos = Nanos::from_millis(2_500);
/// No call of a healthy dependency takes longer.
pub const HEALTHY_CALL_MS: u64 = 100;
/// No operator's order that ends by itself lasts longer.
pub const ORDER_MAX_MS: u64 = 10_000;
/// A client that hears nothing sends its question again after so long, so often, then gives up.
pub const RESEND_AFTER_MS: (u64, u64) = (300, 1_000);
pub const SENDS_MAX: u32 = 3;
/// In health nothing happens: clients call so much less often.
pub const CALMER: u64 = 4;
/// What a session is pushed is renewed so often.
pub const RENEW_EVERY: Nanos = Nanos::from_secs(5);

#[derive(Clone, Debug)]
pub struct Scenario {
    pub policy: Policy,
    pub clients: usize,
    /// So many clients are one process.
    pub clients_an_instance: u64,
    /// Between the calls of a client.
    pub think_ms: u64,
    /// Shares of messages.
    pub lost: f64,
    pub doubled: f64,
    pub slow: f64,
    /// Of grants: the client takes its time before the call.
    pub dawdles: f64,
    /// Of probes: a fault hits just then.
    pub malice: f64,
    pub outages: Vec<Outage>,
    pub faults: Vec<(Time, Fault)>,
    /// From here on nothing goes wrong and the dependency is healthy.
    pub healed: Time,
}

#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub from: Time,
    pub until: Time,
    pub kind: OutageKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    Refuses,
    Hangs,
    /// Half of the calls hang, the others are refused.
    Both,
    /// Half of the calls fail.
    Flaps,
    /// Asks for a wait.
    Throttles,
}

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Pause {
        client: usize,
        lasts: Nanos,
    },
    Die {
        client: usize,
    },
    /// One direction of one client's network swallows everything.
    BlackHole {
        client: usize,
        up: bool,
        lasts: Nanos,
    },
    /// Nobody reaches the coordinator, or it nobody.
    BlackHoleAll {
        up: bool,
        lasts: Nanos,
    },
    CoordinatorPauses {
        lasts: Nanos,
    },
    /// Nothing reaches the disk.
    DiskStalls {
        lasts: Nanos,
    },
    Restart {
        down: Nanos,
        keeps: Keeps,
    },
    ForceOpen {
        lasts: Option<Nanos>,
    },
    ForceClosed {
        lasts: Option<Nanos>,
    },
    ClearOrder,
    Reset,
}

/// What a restart finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    TheDirectory,
    Nothing,
}

impl Scenario {
    pub fn draw(draws: &mut Draws) -> Self {
        let policy = policy(draws);
        let clients = draws.from(2, 40) as usize;
        let calls_a_second = draws.from(5, 40);
        let healed = Time(0) + draws.millis(15_000, 45_000);
        Self {
            clients,
            clients_an_instance: draws.one_of(&[1, 1, 1, 2, 5]),
            think_ms: 2_000 * clients as u64 / calls_a_second,
            lost: draws.one_of(&[0.0, 0.01, 0.05, 0.2]),
            doubled: draws.one_of(&[0.0, 0.02, 0.1, 0.3]),
            slow: draws.one_of(&[0.0, 0.02, 0.1]),
            dawdles: draws.one_of(&[0.0, 0.1, 0.5]),
            malice: draws.one_of(&[0.0, 0.1, 0.4]),
            outages: outages(draws, healed),
            faults: faults(draws, clients, healed),
            healed,
            policy,
        }
    }

    pub fn health(&self, now: Time) -> Option<OutageKind> {
        let now_in = |outage: &&Outage| outage.from <= now && now < outage.until;
        self.outages.iter().find(now_in).map(|outage| outage.kind)
    }

    /// How long a message takes.
    pub fn trip(&self, draws: &mut Draws, now: Time) -> Nanos {
        match now < self.healed && draws.happens(self.slow) {
            true => draws.millis(50, LONGEST_TRIP_MS),
            false => draws.millis(1, 10),
        }
    }

    /// From here on nothing that was begun under faults can count: the last message has
    /// arrived, the last attempt has ended, the last lease and the last permit that nobody
    /// reports have, and so has the longest wait that a client was told.
    pub fn settled(&self) -> Time {
        let policy = &self.policy;
        let promised = longest_delay(policy).saturating_add(policy.breaker.permit_ttl);
        let asking = Nanos::from_millis(RESEND_AFTER_MS.1 * u64::from(SENDS_MAX));
        self.healed
            + Nanos::from_millis(LONGEST_TRIP_MS)
            + asking
            + ATTEMPT_TIMEOUT
            + promised.max(policy.breaker.probe_lease)
    }

    /// Here the breaker is closed, whatever happened. Until [`Self::settled`] anything may
    /// still reopen it. Then: the longest wait that was told before; one open period and its
    /// spread; a first question; and a call, its thinking and its messages for each success
    /// that it takes.
    pub fn closed_by(&self) -> Time {
        let breaker = &self.policy.breaker;
        let open = breaker.open_max.max(breaker.open_for);
        let told = open.max(breaker.probe_lease).saturating_add(breaker.spread);
        let told = told
            .max(GO_VALID_FOR)
            .max(Nanos::from_millis(ORDER_MAX_MS).saturating_add(breaker.spread))
            .max(longest_delay(&self.policy));
        let round = Nanos::from_millis(CALMER * self.think_ms + HEALTHY_CALL_MS + 100);
        let rounds = Nanos(round.0 * (1 + u64::from(breaker.probe_successes)));
        self.settled() + told + open + breaker.spread + rounds
    }
}

/// The longest delay of a grant.
fn longest_delay(policy: &Policy) -> Nanos {
    (policy.retry.max_delay)
        .saturating_add(policy.pushback.max)
        .saturating_add(policy.pushback.spread)
        .saturating_add(policy.calendar.horizon)
        .saturating_add(policy.ramp.horizon)
}

fn policy(draws: &mut Draws) -> Policy {
    let mut policy = Policy::default();
    let breaker = &mut policy.breaker;
    breaker.detect = match draws.below(3) {
        0 => Detect::Window(Window {
            size: match draws.below(2) {
                0 => WindowSize::Calls(draws.from(3, 20) as u32),
                _ => WindowSize::Time(draws.millis(1_000, 8_000)),
            },
            min_calls: draws.from(1, 3) as u32,
            failure_ratio: Share(500_000),
            consecutive_failures: draws.below(4) as u32,
            slow_ratio: Share(800_000),
        }),
        _ => Detect::Adaptive,
    };
    breaker.applies_to = match draws.below(6) {
        0 => AppliesTo::Retries,
        1 => AppliesTo::Auto,
        _ => AppliesTo::All,
    };
    breaker.probes = draws.from(1, 4) as u32;
    breaker.probe_successes = draws.from(1, 3) as u32;
    breaker.probe_lease = draws.millis(500, 5_000);
    // As often shorter than the lease as longer.
    breaker.open_for = draws.millis(200, 6_000);
    breaker.open_multiplier = draws.one_of(&[1.0, 1.5, 2.0]);
    breaker.open_max = breaker.open_for.max(Nanos::from_secs(8));
    breaker.spread = draws.millis(0, 1_500);
    breaker.permit_ttl = draws.millis(1_000, 4_000);
    breaker.min_reporters = draws.from(1, 2) as u32;
    if let (Detect::Window(_), 0) = (&breaker.detect, draws.below(2)) {
        breaker.slow_after = Nanos::from_millis(500);
    }
    policy.ramp.start = draws.one_of(&[Share(250_000), Share(500_000), Share::ONE]);
    policy.ramp.max_duration = Nanos::from_secs(10);
    policy.calendar.retry_rate = draws.one_of(&[
        RetryRate::Off,
        RetryRate::Auto,
        RetryRate::PerSecond(0.7),
        RetryRate::PerSecond(20.0),
    ]);
    policy.calendar.horizon = draws.millis(500, 2_500);
    policy.budget.ratio = draws.one_of(&[Share(100_000), Share(200_000), Share::ONE]);
    policy.budget.floor_micros_per_second = draws.from(0, 3_000_000);
    policy.budget.ttl = Nanos::from_millis(draws.from(10, 100) * 100);
    policy.retry.max_attempts = MaxAttempts::Limited(draws.from(1, 4) as u32);
    policy.retry.jitter = draws.one_of(&[Jitter::None, Jitter::Full, Jitter::Decorrelated]);
    policy.retry.initial_delay = draws.millis(0, 500);
    policy.retry.max_delay = Nanos::from_millis(1_500);
    policy.pushback.max = Nanos::from_secs(1);
    policy.pushback.spread = Nanos::from_millis(500);
    policy.pushback.scope = draws.one_of(&[PushbackScope::Caller, PushbackScope::Dependency]);
    policy
}

fn outages(draws: &mut Draws, healed: Time) -> Vec<Outage> {
    let mut outages = Vec::new();
    let mut from = Time(0) + draws.millis(500, 3_000);
    while from < healed {
        let until = from + draws.millis(500, 9_000);
        let kind = match draws.below(8) {
            0 => OutageKind::Hangs,
            1 => OutageKind::Flaps,
            2 => OutageKind::Throttles,
            3..5 => OutageKind::Both,
            _ => OutageKind::Refuses,
        };
        outages.push(Outage {
            from,
            until: until.min(healed),
            kind,
        });
        from = until + draws.millis(200, 5_000);
    }
    outages
}

fn faults(draws: &mut Draws, clients: usize, healed: Time) -> Vec<(Time, Fault)> {
    let many = draws.from(4, 30);
    let when = |draws: &mut Draws| Time(draws.below(healed.0));
    (0..many)
        .map(|_| (when(draws), fault(draws, clients)))
        .collect()
}

fn fault(draws: &mut Draws, clients: usize) -> Fault {
    let client = draws.below(clients as u64) as usize;
    let up = draws.below(2) == 0;
    match draws.below(20) {
        0..4 => Fault::Pause {
            client,
            lasts: draws.millis(100, 20_000),
        },
        4..7 => Fault::Die { client },
        7..9 => Fault::BlackHole {
            client,
            up,
            lasts: draws.millis(500, 10_000),
        },
        9 => Fault::BlackHoleAll {
            up,
            lasts: draws.millis(200, 4_000),
        },
        10 => Fault::CoordinatorPauses {
            lasts: draws.millis(50, 6_000),
        },
        11 => Fault::DiskStalls {
            lasts: draws.millis(100, 5_000),
        },
        12..15 => Fault::Restart {
            down: draws.millis(1, 2_000),
            keeps: Keeps::TheDirectory,
        },
        15 => Fault::Restart {
            down: draws.millis(1, 2_000),
            keeps: Keeps::Nothing,
        },
        16 => Fault::ForceOpen {
            lasts: lasts(draws),
        },
        17 => Fault::ForceClosed {
            lasts: lasts(draws),
        },
        18 => Fault::ClearOrder,
        _ => Fault::Reset,
    }
}

/// What happens to whoever has just been given a probe, or to who gave it.
pub fn malice(draws: &mut Draws, client: usize, lease: Nanos) -> Fault {
    let lease_ms = lease.0 / 1_000_000;
    match draws.below(6) {
        0..2 => Fault::Pause {
            client,
            lasts: draws.millis(lease_ms / 2, 2 * lease_ms),
        },
        2 => Fault::Die { client },
        3 => Fault::BlackHole {
            client,
            up: draws.below(2) == 0,
            lasts: draws.millis(lease_ms / 2, 2 * lease_ms),
        },
        kept => Fault::Restart {
            down: draws.millis(1, 300),
            keeps: match kept {
                4 => Keeps::TheDirectory,
                _ => Keeps::Nothing,
            },
        },
    }
}

fn lasts(draws: &mut Draws) -> Option<Nanos> {
    (draws.below(8) > 0).then(|| draws.millis(200, ORDER_MAX_MS))
}
