//! What a replica finds out about the store beside its silence: that it has lost the last of what it
//! had, that nothing is heard of the others through it, that it has another fleet's key.
//!
//! A store that was emptied is known by its clock, which is another one. One that comes back with all
//! but its last writes (a restart from an older dump, a fail-over) has the same clock, and whoever
//! writes first makes its versions higher than those that are remembered. So the server itself is
//! known by the name of its run, asked for after each new connection. Where it does not tell, as in a
//! cluster, an older version of the clock's record tells of the loss, if nobody was faster.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use holdoff_decision::{Nanos, Time};

use super::{Counted, Shared, Version, link::Link, locked};

/// Signs of life come each two seconds, those of this replica, too.
const DEAF_AFTER: Nanos = Nanos::from_secs(15);
const WARN_EVERY: Nanos = Nanos::from_secs(60);
const TRIES: u32 = 3;
const AGAIN_AFTER: Duration = Duration::from_millis(100);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

const DEAF: &str = "nothing is heard of the other replicas through the store, which may refuse PUBLISH or \
                    SUBSCRIBE: what they change holds here some seconds later";
const OTHER_KEY: &str = "the store has the permit key of another fleet: restart this replica";

/// See the module.
#[derive(Debug)]
pub struct Doubts {
    /// The run of the server; `None`: it did not tell.
    server: Mutex<Option<String>>,
    clock_version: AtomicU64,
    may_lack_writes: AtomicBool,
    has_other_key: AtomicBool,
    /// By the own clock.
    heard: AtomicU64,
    warned: AtomicU64,
}

impl Doubts {
    pub fn new(now: Time) -> Self {
        Self {
            server: Mutex::default(),
            clock_version: AtomicU64::new(0),
            may_lack_writes: AtomicBool::new(false),
            has_other_key: AtomicBool::new(false),
            heard: AtomicU64::new(now.0),
            warned: AtomicU64::new(0),
        }
    }

    pub fn hear(&self, now: Time) {
        self.heard.store(now.0, Ordering::Relaxed);
    }

    fn is_deaf(&self, now: Time) -> bool {
        now.since(Time(self.heard.load(Ordering::Relaxed))) > DEAF_AFTER
    }

    pub fn note_key(&self, is_other: bool) {
        self.has_other_key.store(is_other, Ordering::Relaxed);
    }

    /// Whether writes were lost: the clock's record was found at an older version than before, or it
    /// was suspected. `after`: what is known of it now.
    pub fn lacks_writes(&self, found: &Version, after: &Version) -> bool {
        let number = |version: &Version| version.as_deref().and_then(|it| it.parse::<u64>().ok());
        let after = number(after).unwrap_or_default();
        let before = self.clock_version.swap(after, Ordering::Relaxed);
        let is_older = number(found).is_some_and(|found| found < before);
        self.may_lack_writes.swap(false, Ordering::Relaxed) || is_older
    }
}

impl Shared {
    /// Asks which server it is, after it was connected to. True: another than before.
    pub async fn meet_server(&self) -> bool {
        if !matches!(self.link, Link::One(_)) {
            return false;
        }
        let mut info = ::redis::cmd("INFO");
        info.arg("server");
        for _ in 0..TRIES {
            self.counts.add(Counted::Keep);
            let told = self.link.command::<String>(&info);
            match tokio::time::timeout(ANSWER_WITHIN, told).await {
                Ok(Ok(told)) => {
                    let run = told.lines().find_map(|line| line.strip_prefix("run_id:"));
                    let run = run.map(|run| run.trim().to_owned());
                    let mut server = locked(&self.doubts.server);
                    let is_other = server.is_some() && run.is_some() && *server != run;
                    *server = run.or(server.take());
                    return is_other;
                }
                // That of the server which was there before.
                Ok(Err(error)) if error.is_io_error() || error.is_connection_dropped() => {}
                Ok(Err(_)) | Err(_) => return false,
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        false
    }

    /// The store may have lost the last of what it had: what is newer here is put back, at the
    /// keeper's next look.
    pub fn suspect_loss(&self) {
        for desk in &self.desks {
            locked(&desk).mark_lost();
        }
        self.doubts.may_lack_writes.store(true, Ordering::Relaxed);
    }

    /// What an operator should know while the store answers.
    pub fn troubles(&self) -> Vec<&'static str> {
        let is_deaf = self.doubts.is_deaf(self.clock.own()) && !self.is_away();
        let has_other_key = self.doubts.has_other_key.load(Ordering::Relaxed);
        let all = [(is_deaf, DEAF), (has_other_key, OTHER_KEY)];
        let those = all.into_iter().filter(|(is_so, _)| *is_so);
        those.map(|(_, trouble)| trouble).collect()
    }

    /// Nothing was heard for a while. Of a store that is away it is told anyway.
    pub fn note_silence(&self) {
        let now = self.clock.own();
        if self.is_away() {
            self.doubts.hear(now);
        }
        let warned = Time(self.doubts.warned.load(Ordering::Relaxed));
        let is_due = warned == Time::ORIGIN || now.since(warned) >= WARN_EVERY;
        if self.doubts.is_deaf(now) && is_due {
            self.doubts.warned.store(now.0, Ordering::Relaxed);
            tracing::warn!("{DEAF}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64) -> Version {
        Some(number.to_string().into_boxed_str())
    }

    #[test]
    fn an_older_version_of_the_clocks_record_tells_once_of_lost_writes() {
        let doubts = Doubts::new(Time(1));
        for (found, after, is_lost) in [
            (version(9), version(10), false),
            (version(10), version(11), false),
            (version(15), version(16), false),
            (version(9), version(17), true),
            (version(17), version(18), false),
            // Emptied: that is told otherwise.
            (None, version(4), false),
            (version(4), version(5), false),
        ] {
            assert_eq!(doubts.lacks_writes(&found, &after), is_lost, "{found:?}");
        }
        doubts.may_lack_writes.store(true, Ordering::Relaxed);
        assert!(doubts.lacks_writes(&version(5), &version(6)));
        assert!(!doubts.lacks_writes(&version(6), &version(7)));
    }

    #[test]
    fn who_hears_its_own_signs_of_life_is_not_deaf() {
        let doubts = Doubts::new(Time(1));
        assert!(!doubts.is_deaf(Time(1) + DEAF_AFTER));
        assert!(doubts.is_deaf(Time(2) + DEAF_AFTER));
        doubts.hear(Time(2));
        assert!(!doubts.is_deaf(Time(2) + DEAF_AFTER));
    }
}
