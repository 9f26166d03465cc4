//! The only clock that the service reads.
//!
//! Time is monotonic. Its origin is the wall clock's 1970 as it was when the process
//! started, so that an instant can be shown to people and compared with one that was
//! written down before a restart; a wall clock that is stepped later changes nothing.

pub mod fleet;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use holdoff_decision::{Nanos, Time};

pub use self::fleet::FleetClock;

/// Where the time comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    System {
        started: quanta::Instant,
        origin: Time,
    },
    /// Stands still until a test moves it.
    Manual(Arc<AtomicU64>),
    /// That of a store which several replicas share.
    Fleet(Arc<FleetClock>),
}

impl Clock {
    pub fn system() -> Self {
        Self::System {
            started: quanta::Instant::now(),
            origin: of_wall(SystemTime::now()),
        }
    }

    /// A clock for tests, and the handle that moves it.
    pub fn manual(start: Time) -> (Self, Arc<AtomicU64>) {
        let handle = Arc::new(AtomicU64::new(start.0));
        (Self::Manual(Arc::clone(&handle)), handle)
    }

    pub fn now(&self) -> Time {
        match self {
            Self::System { started, origin } => *origin + Nanos::from(started.elapsed()),
            Self::Manual(now) => Time(now.load(Ordering::Relaxed)),
            Self::Fleet(clock) => clock.now(),
        }
    }

    /// The wall clock, for what is written down or shown. Nothing is decided by it.
    pub fn wall(&self) -> SystemTime {
        match self {
            Self::System { .. } | Self::Fleet(_) => SystemTime::now(),
            Self::Manual(_) => to_wall(self.now()),
        }
    }
}

/// For how long something waits here; nothing is decided by it.
pub fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// An instant as people write it.
pub fn to_wall(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(time.0)
}

/// The instant of a wall clock; its origin for what was before 1970.
pub fn of_wall(wall: SystemTime) -> Time {
    let since = wall
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Time::ORIGIN + Nanos::from(since)
}
