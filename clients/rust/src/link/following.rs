//! What a stream follows. It begins with what was called lately, the service adds what is
//! asked about, and what is called no longer is left, so that nothing is pushed for nobody
//! and the fleet's allowance is shared by those who use it.

use std::collections::HashSet;

use tokio::time::{Duration, Instant, Interval, MissedTickBehavior, interval_at};

use super::Shared;
use crate::proto::{self, SessionRequest, session_request::Message};

const LEAVE_EVERY: Duration = Duration::from_secs(60);
/// Names in one message; of 202 bytes at most, so that these are 40 KiB.
const NAMES_MAX: usize = 200;
/// Names that are followed again when they are asked about; others are only asked about.
const LEFT_MAX: usize = 10_000;

/// What this stream has left.
#[derive(Debug, Default)]
pub(super) struct Following {
    left: HashSet<String>,
}

impl Following {
    /// The first messages of a stream.
    pub(super) fn greeting(shared: &Shared) -> impl Iterator<Item = SessionRequest> {
        let names = shared.pushed.followed();
        let mut names = names.chunks(NAMES_MAX).map(<[String]>::to_vec);
        let mut hello = shared.hello.clone();
        hello.subscribe = names.next().unwrap_or_default();
        let rest: Vec<_> = names.map(|add| subscribe(add, Vec::new())).collect();
        std::iter::once(message(Message::Hello(hello))).chain(rest)
    }

    /// When to look for what is called no longer.
    pub(super) fn schedule() -> Interval {
        let mut schedule = interval_at(Instant::now() + LEAVE_EVERY, LEAVE_EVERY);
        schedule.set_missed_tick_behavior(MissedTickBehavior::Delay);
        schedule
    }

    /// Leaves what is called no longer.
    pub(super) fn leave_idle(&mut self, shared: &Shared) -> Vec<SessionRequest> {
        let idle = shared.pushed.leave_idle();
        let room = LEFT_MAX.saturating_sub(self.left.len());
        self.left.extend(idle.iter().take(room).cloned());
        let names = idle.chunks(NAMES_MAX).map(<[String]>::to_vec);
        names.map(|remove| subscribe(Vec::new(), remove)).collect()
    }

    /// Follows again what was left and is asked about.
    pub(super) fn resume<'a>(
        &mut self,
        asked: impl Iterator<Item = &'a str>,
    ) -> Option<SessionRequest> {
        if self.left.is_empty() {
            return None;
        }
        let again: Vec<String> = asked.filter_map(|name| self.left.take(name)).collect();
        (!again.is_empty()).then(|| subscribe(again, Vec::new()))
    }
}

fn subscribe(add: Vec<String>, remove: Vec<String>) -> SessionRequest {
    message(Message::Subscribe(proto::Subscribe { add, remove }))
}

/// Its answer, if any, is an error that nobody waits for.
fn message(message: Message) -> SessionRequest {
    SessionRequest {
        id: 0,
        message: Some(message),
    }
}
