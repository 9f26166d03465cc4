//! Where n checkers of one target have their places in a period, and what the largest gap
//! between two of them is: the longest that a fault waits for the next check.
//!
//! A phase is a part of the period in [0, 1); a gap is given in even ones (n times the largest
//! gap), so that 1 is the best there is. No sequence that adds phases one by one stays below
//! 1 / ln 2 = 1.443 (de Bruijn and Erdős, 1949), and `log2(2k - 1) mod 1` reaches it.
//!
//! holdoff is `holdoff_decision::check` with `phase: spread`: checkers that join, ask again each
//! period, and leave.

use holdoff_decision::{
    Nanos, Sample, Time,
    check::{Checks, Finished, Plan, checker_name, plan},
    policy::{Check, Phase},
};

use super::draws::Draws;

/// How phases are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    Random,
    /// i/n: all are known from the start.
    Even,
    /// i/n, and a draw within so many hundredths of each place.
    EvenJittered(u32),
    VanDerCorput,
    Golden,
    Log2,
}

impl Allocation {
    /// The phases of the first `n`.
    pub fn phases(self, n: u32, draws: &mut Draws) -> Vec<f64> {
        let place = |at: u32, draws: &mut Draws| match self {
            Self::Random => draws.unit(),
            Self::Even => f64::from(at) / f64::from(n),
            Self::EvenJittered(hundredths) => {
                let jitter = draws.unit() * f64::from(hundredths) / 100.0;
                (f64::from(at) + jitter) / f64::from(n)
            }
            Self::VanDerCorput => f64::from(at.reverse_bits()) / 2_f64.powi(32),
            Self::Golden => golden(at),
            Self::Log2 => (2.0 * f64::from(at) + 1.0).log2().fract(),
        };
        (0..n).map(|at| place(at, draws)).collect()
    }
}

pub fn golden(at: u32) -> f64 {
    (f64::from(at) * (5_f64.sqrt() - 1.0) / 2.0).fract()
}

/// What a set of phases is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// n times the largest gap.
    pub largest: f64,
    /// n times the mean wait for the next check.
    pub mean_wait: f64,
    /// The most checks in a hundredth of the period.
    pub fullest: usize,
}

pub fn spread(phases: &[f64]) -> Spread {
    let mut sorted = phases.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let around = sorted
        .iter()
        .skip(1)
        .copied()
        .chain(sorted.first().map(|first| first + 1.0));
    let gaps = sorted.iter().zip(around).map(|(one, next)| next - one);
    let (mut largest, mut wait) = (0.0_f64, 0.0);
    for gap in gaps {
        largest = largest.max(gap);
        wait += gap * gap / 2.0;
    }
    Spread {
        largest: largest * n,
        mean_wait: wait * n,
        fullest: fullest(&sorted),
    }
}

/// The most within any stretch of a hundredth, around the end too.
fn fullest(sorted: &[f64]) -> usize {
    let twice: Vec<f64> = sorted
        .iter()
        .copied()
        .chain(sorted.iter().map(|at| at + 1.0))
        .collect();
    let within = |(at, from): (usize, &f64)| {
        let end = twice.partition_point(|to| *to < from + 0.01);
        end - at
    };
    twice
        .iter()
        .enumerate()
        .take(sorted.len())
        .map(within)
        .max()
        .unwrap_or_default()
}

/// The largest and the mean of `largest` over all n up to `most`, as checkers join one by one.
pub fn online(allocation: Allocation, most: u32) -> (f64, f64) {
    let mut draws = Draws::seeded(1);
    let phases = allocation.phases(most, &mut draws);
    let each: Vec<f64> = (2..=phases.len())
        .map(|n| spread(&phases[..n]).largest)
        .collect();
    let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
    (each.into_iter().fold(0.0, f64::max), mean)
}

/// A fleet of checkers that ask holdoff.
pub struct Fleet {
    policy: Check,
    checks: Checks,
    draws: Draws,
    now: Time,
    names: Vec<u64>,
    joined: u32,
    /// What each was told: when it runs next, and under which number.
    next: Vec<(Time, u64)>,
}

impl Fleet {
    /// No checker yet; checks take no time, so none waits for another.
    pub fn new(seed: u64) -> Self {
        Self {
            policy: Check {
                period: Nanos::from_secs(100),
                offset: Nanos::from_secs(10),
                phase: Phase::Spread,
                first_within: Nanos::from_secs(100),
                timeout: Nanos(1),
                max_concurrent: u32::MAX,
                ..Check::default()
            },
            checks: Checks::default(),
            draws: Draws::seeded(seed),
            // Not at the begin of the clock.
            now: Time(Nanos::from_secs(1_000).0),
            names: Vec::new(),
            joined: 0,
            next: Vec::new(),
        }
    }

    pub fn join(&mut self) {
        self.joined += 1;
        let name = checker_name("payments", "checker", &self.joined.to_string());
        self.names.push(name);
        self.next.push((self.now, 0));
        self.ask(self.names.len() - 1, None);
    }

    pub fn leave(&mut self, at: usize) {
        if at < self.names.len() {
            self.checks.leave(self.names.swap_remove(at), self.now);
            self.next.swap_remove(at);
        }
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// n times the largest gap between phases.
    pub fn unevenness(&self) -> f64 {
        self.checks.unevenness()
    }

    /// Lets `periods` pass: each checker checks when it was told to, and asks again. The starts
    /// of the last period, as parts of it.
    pub fn pass(&mut self, periods: u64) -> Vec<f64> {
        let period = self.policy.period;
        let end = self.now + Nanos(period.0.saturating_mul(periods));
        let last = Time(end.0.saturating_sub(period.0));
        let mut starts = Vec::new();
        while let Some((at, (time, serial))) = self.earliest().filter(|(_, next)| next.0 < end) {
            self.now = self.now.max(time);
            if time >= last {
                starts.push(time.since(last).0 as f64 / period.0 as f64);
            }
            self.ask(
                at,
                Some(Finished {
                    serial,
                    healthy: true,
                }),
            );
        }
        self.now = end;
        starts
    }

    fn earliest(&self) -> Option<(usize, (Time, u64))> {
        self.next
            .iter()
            .copied()
            .enumerate()
            .min_by_key(|(_, next)| *next)
    }

    fn ask(&mut self, at: usize, last: Option<Finished>) {
        let sample = Sample {
            jitter: self.draws.unit(),
            spread: self.draws.unit(),
        };
        let Some(name) = self.names.get(at) else {
            return;
        };
        let told = plan(
            &self.policy,
            &mut self.checks,
            *name,
            last,
            self.now,
            sample,
        );
        if let Some(next) = self.next.get_mut(at) {
            *next = match told {
                Plan::Run { delay, serial, .. } => (self.now + delay, serial),
                Plan::Shared { ask_again, .. } => (self.now + ask_again, 0),
            };
        }
    }
}
