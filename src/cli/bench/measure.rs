//! What is counted during a run, and what the server's process used meanwhile.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::time::Instant;
use tonic::Code;

use super::{super::exit::code_name, codec::Verdict};

/// Counts of one run, shared by all workers: they are on one thread, so the lock is free.
#[derive(Debug)]
pub struct Measure {
    /// Nothing before it is counted: connections warm up.
    pub from: Instant,
    /// Nothing after it is counted, and nobody begins anything.
    pub until: Instant,
    counts: Mutex<Counts>,
}

/// What was counted.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Microseconds, to three digits.
    pub latencies: Histogram<u64>,
    pub granted: u64,
    pub denied: u64,
    pub reported: u64,
    pub errors: BTreeMap<&'static str, u64>,
}

/// A minute; what takes longer is counted as that.
const MAX_MICROS: u64 = 60_000_000;

impl Measure {
    /// # Errors
    /// Never with these constants; the histogram's own constructor says so.
    pub fn new(from: Instant, until: Instant) -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            from,
            until,
            counts: Mutex::new(Counts {
                latencies: Histogram::new_with_bounds(1, MAX_MICROS, 3)?,
                granted: 0,
                denied: 0,
                reported: 0,
                errors: BTreeMap::new(),
            }),
        })
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Answers that were due since `sent`, which is the time they should have been asked
    /// at, not the time they were: a server that stalls delays questions, too.
    pub fn answered<'a>(&self, sent: Instant, verdicts: impl Iterator<Item = Verdict<'a>>) {
        let now = Instant::now();
        if now < self.from || now >= self.until {
            return;
        }
        let micros = u64::try_from(now.duration_since(sent).as_micros()).unwrap_or(MAX_MICROS);
        let mut counts = self.lock();
        let mut answers = 0;
        for verdict in verdicts {
            answers += 1;
            match verdict {
                Verdict::Granted(_) => counts.granted += 1,
                Verdict::Denied => counts.denied += 1,
                Verdict::Nothing => {}
            }
        }
        counts.latencies.saturating_record_n(micros.max(1), answers);
    }

    pub fn reported(&self, count: u64) {
        let now = Instant::now();
        if now >= self.from && now < self.until {
            self.lock().reported += count;
        }
    }

    pub fn failed(&self, code: Code) {
        let now = Instant::now();
        if now >= self.from && now < self.until {
            *self.lock().errors.entry(code_name(code)).or_default() += 1;
        }
    }

    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    pub mode: String,
    pub seconds: f64,
    /// Answers to questions, reports left out.
    pub requests: u64,
    pub requests_per_second: f64,
    pub granted: u64,
    pub denied: u64,
    pub reported: u64,
    pub errors: BTreeMap<&'static str, u64>,
    pub latency_micros: Latencies,
    /// Absent without the server's process id.
    pub server_cpu_micros_per_request: Option<f64>,
    /// Of one core; near 1 the load generator is the limit.
    pub client_busy: Option<f64>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latencies {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub max: u64,
}

/// Processor time that was used during a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub server: Option<Duration>,
    pub client: Option<Duration>,
}

impl Figures {
    pub fn new(mode: &str, counts: &Counts, took: Duration, used: Used) -> Self {
        let requests = counts.latencies.len();
        let seconds = took.as_secs_f64().max(f64::MIN_POSITIVE);
        let at = |quantile| counts.latencies.value_at_quantile(quantile);
        Self {
            mode: mode.to_owned(),
            seconds,
            requests,
            requests_per_second: requests as f64 / seconds,
            granted: counts.granted,
            denied: counts.denied,
            reported: counts.reported,
            errors: counts.errors.clone(),
            latency_micros: Latencies {
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                p99_9: at(0.999),
                max: counts.latencies.max(),
            },
            server_cpu_micros_per_request: used
                .server
                .filter(|_| requests > 0)
                .map(|cpu| cpu.as_secs_f64() * 1e6 / requests as f64),
            client_busy: used.client.map(|cpu| cpu.as_secs_f64() / seconds),
        }
    }
}

/// The processor time of a process with all its threads, user and system.
pub fn processor_time(pid: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = ticks(&text)?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// Fields 14 and 15; the second one, a name in brackets, may contain anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_read_past_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 200 0 0 0 41 9 0 0 20 0 4 0 100 0";
        assert_eq!(ticks(stat), Some(50));
        assert!(processor_time(std::process::id()).is_some());
        assert_eq!(processor_time(0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_falls_into_the_run_is_counted_from_when_it_was_due() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let measure = Measure::new(start + second, start + 3 * second).unwrap();
        measure.answered(start, [Verdict::Denied].into_iter());
        tokio::time::advance(2 * second).await;
        measure.answered(
            start + second,
            [Verdict::Denied, Verdict::Granted(b"")].into_iter(),
        );
        measure.failed(Code::Unavailable);
        tokio::time::advance(second).await;
        measure.answered(start, [Verdict::Denied].into_iter());
        let figures = Figures::new("unary", &measure.counts(), 2 * second, Used::default());
        assert_eq!(
            (figures.requests, figures.granted, figures.denied),
            (2, 1, 1)
        );
        assert_eq!(figures.latency_micros.p50 / 1_000, 1_000);
        assert_eq!(figures.errors, BTreeMap::from([("UNAVAILABLE", 1)]));
        assert!(measure.is_over());
    }
}
