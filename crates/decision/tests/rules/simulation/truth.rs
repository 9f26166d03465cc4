//! What is really so, kept outside of the rules: who may act on a probe, when the breaker
//! opened and was written down, which permits have counted, and what was granted.

use std::collections::HashSet;

use holdoff_decision::{Nanos, Policy, Time};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Harm {
    /// More probes could be on the wire than the policy has.
    TooManyProbes,
    /// An open breaker let somebody pass.
    EarlyGrant,
    /// A breaker that an operator forced open did.
    ForcedOpenGrant,
    /// A permit counted twice.
    CountedTwice,
    /// A report changed the state of another epoch, or of another run.
    StaleCounted,
    /// (boot epoch, epoch) did not rise with a transition.
    EpochFell,
    /// More retries than first attempts pay for.
    OverBudget,
    NotClosed,
}

/// A client that may act on a probe.
#[derive(Clone, Copy, Debug)]
struct Holding {
    client: usize,
    life: u32,
    until: Time,
    lease: Lease,
}

/// Whose lease it is.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    pub run: u64,
    /// It was leased by a run that knew of no run before it, though there was one.
    pub is_unaware: bool,
}

impl Lease {
    /// The later of two runs knows of the leases of the earlier one, or that it must wait.
    fn excludes(&self, other: &Self) -> bool {
        let later = if self.run >= other.run { self } else { other };
        self.run == other.run || !later.is_unaware
    }
}

#[derive(Clone, Debug, Default)]
pub struct Truth {
    probes: Vec<Holding>,
    /// Nothing that the breaker binds passes before.
    pub open_until: Time,
    last_epoch: (u64, u64),
    counted: HashSet<(u64, u64)>,
    first_attempts: Vec<(Time, u32)>,
    retries: Vec<(Time, Token)>,
}

/// One retry: whose, of which life, of which call, the how manieth attempt.
pub type Token = (usize, u32, u64, u32);

impl Truth {
    /// A client has a probe that it gives up, or that ends, at `until`. How many may act only
    /// rises here, so this sees every instant. Returns how many do, of those that one coordinator
    /// could know of.
    pub fn holds(
        &mut self,
        (client, life): (usize, u32),
        lease: Lease,
        until: Time,
        now: Time,
    ) -> usize {
        self.probes
            .retain(|it| now < it.until && (it.client, it.life) != (client, life));
        self.probes.push(Holding {
            client,
            life,
            until,
            lease,
        });
        let known = self.probes.iter().filter(|it| it.lease.excludes(&lease));
        known.count()
    }

    /// It has given it up; what a dead client has on the wire ends by itself.
    pub fn gives_up(&mut self, client: usize, life: u32) {
        self.probes
            .retain(|it| (it.client, it.life) != (client, life));
    }

    /// True: (boot epoch, epoch) has risen.
    pub fn rises(&mut self, run: u64, epoch: u64) -> bool {
        let risen = (run, epoch) > self.last_epoch;
        self.last_epoch = (run, epoch);
        risen
    }

    /// True: for the first time.
    pub fn counts(&mut self, run: u64, serial: u64) -> bool {
        self.counted.insert((run, serial))
    }

    pub fn deposit(&mut self, many: u32, now: Time) {
        if many > 0 {
            self.first_attempts.push((now, many));
        }
    }

    pub fn refund(&mut self, token: Token) {
        if let Some(at) = self.retries.iter().rposition(|(_, it)| *it == token) {
            self.retries.remove(at);
        }
    }

    /// Notes a retry that was granted, and returns what was granted and allowed in the window
    /// that ends with it. `floor`: it counts.
    pub fn withdraw(
        &mut self,
        policy: &Policy,
        token: Token,
        floor: bool,
        now: Time,
    ) -> (u128, u128) {
        let budget = &policy.budget;
        let inside = |at: &Time| now.since(*at) < budget.ttl;
        self.retries.retain(|(at, _)| inside(at));
        self.first_attempts.retain(|(at, _)| inside(at));
        self.retries.push((now, token));
        let firsts = self.first_attempts.iter();
        let firsts: u128 = firsts.map(|(_, many)| u128::from(*many)).sum();
        let floor = match floor {
            true => u128::from(budget.floor_micros_per_second) * u128::from(budget.ttl.0),
            false => 0,
        };
        let allowed = (u128::from(budget.ratio.0) * firsts + floor / 1_000_000_000) / 1_000_000;
        (self.retries.len() as u128, allowed)
    }

    /// A run begins: what was in memory is not known to it.
    pub fn restart(&mut self, open_until: Time) {
        self.open_until = open_until;
        self.first_attempts.clear();
        self.retries.clear();
    }
}

/// How long a client may act on a probe lease: it gives it up a margin before the end.
pub fn usable(lease: Nanos) -> Nanos {
    let margin = Nanos::from_millis(250)
        .max(Nanos(lease.0 / 10))
        .min(Nanos(lease.0 / 2));
    lease.saturating_sub(margin)
}
