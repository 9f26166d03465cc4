//! The clocks of a client: a monotonic one for all that is decided, the wall clock for
//! reading HTTP dates, and how long the machine was suspended.
//!
//! The monotonic clock stands still while a machine sleeps, so after a resume a permit looks
//! younger than it is. The boot-time clock runs on; the difference between the two is the
//! time that the machine was suspended, and stepping the wall clock does not touch it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use holdoff_decision::{Nanos, Time};
use tokio::time::Instant;

/// Below this the two clocks merely were not read at the same time.
const SUSPENDED_MIN: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Clock {
    origin: Instant,
    /// At the origin.
    mark: Duration,
    suspended: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            mark: suspended(),
            suspended: Arc::new(suspended),
        }
    }

    /// With a machine that sleeps when a test says so.
    #[cfg(test)]
    pub(crate) fn suspended_by(suspended: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            origin: Instant::now(),
            mark: suspended(),
            suspended: Arc::new(suspended),
        }
    }

    /// Now, as the rules count it.
    pub(crate) fn time(&self) -> Time {
        let awake = Time::ORIGIN + Nanos::from(self.origin.elapsed());
        awake + Nanos::from(self.suspended_since(self.mark))
    }

    /// A mark for [`Self::suspended_since`].
    pub(crate) fn mark(&self) -> Duration {
        (self.suspended)()
    }

    /// How long the machine slept since the mark was taken.
    pub(crate) fn suspended_since(&self, mark: Duration) -> Duration {
        let slept = (self.suspended)().saturating_sub(mark);
        match slept < SUSPENDED_MIN {
            true => Duration::ZERO,
            false => slept,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// Seconds since 1970, for HTTP dates alone.
pub(crate) fn wall_unix_secs() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |elapsed| elapsed.as_secs())
}

/// Microseconds since 1970: a number that rises over restarts of a process.
pub(crate) fn wall_unix_micros() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(1, |elapsed| elapsed.as_micros() as u64)
}

#[cfg(target_os = "linux")]
fn suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| {
        let time = clock_gettime(clock);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    };
    let monotonic = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(monotonic)
}

/// Elsewhere the monotonic clock is taken to run on.
#[cfg(not(target_os = "linux"))]
fn suspended() -> Duration {
    Duration::ZERO
}
