//! The called service: one queue, served in order, that rejects or goes silent where too much
//! is queued, with a provider's quota in front, and everything that can happen to it.
//!
//! It has no events of its own. What happens to it is known beforehand, so that the end of a
//! call follows when the call arrives: the work ahead of it, served at the rates to come.

use crate::{
    random::{Purpose, Stream},
    scenario::{Quota, Scenario},
    timeline::{Mode, Stretch},
};

/// What becomes of a call that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Answered well, when.
    Served(u64),
    /// Answered with an error, when.
    Failed(u64),
    /// Rejected at once, for its backlog.
    Rejected,
    /// Rejected at once by the quota, with the wait that it asks for (nanoseconds).
    Throttled(Option<u64>),
    /// Nothing comes.
    Silence,
}

/// The called service.
#[derive(Debug)]
pub struct Dependency {
    stretches: Vec<Stretch>,
    /// The stretch of `as_of`.
    current: usize,
    /// Calls a second in health.
    capacity: f64,
    /// Calls queued, as of `as_of`.
    work: f64,
    as_of: u64,
    rejects_above_s: f64,
    rejection_cost: f64,
    silent_above_s: f64,
    latency: u64,
    cold_share: f64,
    cold_for: u64,
    quota: Option<Bucket>,
    random: Stream,
}

#[derive(Debug)]
struct Bucket {
    quota: Quota,
    tokens: f64,
    as_of: u64,
}

impl Dependency {
    pub fn new(scenario: &Scenario, stretches: Vec<Stretch>, seed: u64) -> Self {
        let it = &scenario.dependency;
        let never = |span: crate::scenario::Span| match span.is_zero() {
            true => f64::INFINITY,
            false => span.secs(),
        };
        Self {
            stretches,
            current: 0,
            capacity: scenario.capacity(),
            work: 0.0,
            as_of: 0,
            rejects_above_s: never(it.rejects_above),
            rejection_cost: it.rejection_cost,
            silent_above_s: never(it.silent_above),
            latency: it.latency.nanos(),
            cold_share: it.cold_share,
            cold_for: it.cold_for.nanos(),
            quota: it.quota.clone().map(|quota| Bucket {
                tokens: f64::from(quota.burst),
                quota,
                as_of: 0,
            }),
            random: Stream::new(seed, u32::MAX, Purpose::Dependency),
        }
    }

    /// Takes a call. Times never go back.
    pub fn take(&mut self, now: u64) -> Fate {
        self.work_until(now);
        let stretch = &self.stretches[self.current];
        let (mode, failing, slower_by) = (stretch.mode, stretch.failing, stretch.slower_by);
        match mode {
            Mode::Refuses => return Fate::Failed(now),
            Mode::Silent => return Fate::Silence,
            Mode::Works | Mode::Stalls => {}
        }
        if let Some(bucket) = &mut self.quota
            && !bucket.admits(now)
        {
            let asks = bucket.quota.retry_after.nanos();
            return Fate::Throttled((asks > 0).then_some(asks));
        }
        let backlog_s = self.work / self.strength(self.current, now);
        if backlog_s >= self.silent_above_s {
            return Fate::Silence;
        }
        if backlog_s >= self.rejects_above_s {
            self.work += self.rejection_cost;
            return Fate::Rejected;
        }
        self.work += 1.0;
        let ends = self.ends(now) + self.latency + slower_by;
        match self.random.chance(failing) {
            true => Fate::Failed(ends),
            false => Fate::Served(ends),
        }
    }

    /// Whether calls that arrive at this time meet a dependency that is down.
    pub fn is_down(&self) -> bool {
        self.stretches[self.current].mode != Mode::Works
    }

    /// Serves what can be served until `now`.
    fn work_until(&mut self, now: u64) {
        loop {
            let to = self.stretches[self.current].to;
            let until = now.min(to);
            if until > self.as_of && self.work > 0.0 {
                let seconds = (until - self.as_of) as f64 / 1e9;
                let middle = self.as_of + (until - self.as_of) / 2;
                self.work = (self.work - seconds * self.rate(self.current, middle)).max(0.0);
            }
            self.as_of = self.as_of.max(until);
            if now < to || self.current + 1 == self.stretches.len() {
                return;
            }
            self.current += 1;
        }
    }

    /// When all that is queued now will have been served.
    fn ends(&self, now: u64) -> u64 {
        let (mut left, mut at) = (self.work, now);
        for index in self.current..self.stretches.len() {
            let to = self.stretches[index].to;
            let rate = self.rate(index, at);
            let seconds = to.saturating_sub(at) as f64 / 1e9;
            if rate * seconds >= left {
                return at + (left / rate * 1e9) as u64;
            }
            left -= rate * seconds;
            at = to;
        }
        u64::MAX
    }

    /// Calls a second at an instant; none while it stalls.
    fn rate(&self, stretch: usize, at: u64) -> f64 {
        match self.stretches[stretch].mode {
            Mode::Stalls => 0.0,
            Mode::Works | Mode::Refuses | Mode::Silent => self.strength(stretch, at),
        }
    }

    /// The rate that it has when it works.
    fn strength(&self, stretch: usize, at: u64) -> f64 {
        let stretch = &self.stretches[stretch];
        let warm = match stretch.warm_since {
            Some(since) if self.cold_for > 0 && at < since + self.cold_for => {
                let part = at.saturating_sub(since) as f64 / self.cold_for as f64;
                self.cold_share + (1.0 - self.cold_share) * part
            }
            Some(_) | None => 1.0,
        };
        self.capacity * stretch.strength * warm
    }
}

impl Bucket {
    fn admits(&mut self, now: u64) -> bool {
        let seconds = now.saturating_sub(self.as_of) as f64 / 1e9;
        self.as_of = now;
        let full = f64::from(self.quota.burst);
        self.tokens = (self.tokens + seconds * self.quota.per_second).min(full);
        let admits = self.tokens >= 1.0;
        if admits {
            self.tokens -= 1.0;
        }
        admits
    }
}
