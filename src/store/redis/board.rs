//! What replicas share besides records: the policies that operators have put, what happened, and
//! who is there. Bytes in, bytes out: what they mean is the coordinator's matter.
//!
//! Policies are one more record that is swapped. What happened is a stream that is only added
//! to (`tell.lua`), by whoever made it happen; a replica's own number of an event tells one that
//! is told again. Who is there is a hash of which each replica writes its own field.
//!
//! Its futures are boxed: they are rare, and part of what every coordinator does.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use ::redis::{Cmd, FromRedisValue, RedisResult, Script, cmd};
use tokio::sync::Notify;

use super::{Act, Outcome, SHARD_KEPT, Shared, StoreError, Tells, Version, millis};

static TELL: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("tell.lua")));

/// Events that the store keeps, about.
const EVENTS_KEPT: usize = 10_000;
/// Longer than a store is away, and a replica repeats itself.
const TELLER_KEPT: Duration = Duration::from_secs(86_400);
/// While nobody is there.
const ROLL_KEPT: Duration = Duration::from_secs(3_600);
/// Events in one answer.
const READ_AT_ONCE: usize = 500;

/// Of a stream: the id of each, and its fields with their values.
type Entries = Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)>;

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Board {
    shared: Arc<Shared>,
}

/// The policies that operators have put, as the store has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// `None`: there are none, and never were.
    pub version: Version,
    pub bytes: Vec<u8>,
}

/// What became of a swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    Done(Version),
    /// Nothing: the store has this.
    Other(Put),
}

/// A replica that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    pub number: u16,
    pub bytes: Vec<u8>,
}

/// What is new on the board since somebody looked.
#[derive(Debug, Default)]
pub struct News {
    events: Notify,
    policies: Notify,
}

impl News {
    pub fn tell(&self, payload: &[u8]) {
        match payload {
            b"e" => self.events.notify_one(),
            _ => self.policies.notify_one(),
        }
    }

    /// Something may have been missed.
    pub fn tell_all(&self) {
        self.tell(b"e");
        self.tell(b"p");
    }
}

impl Board {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
        }
    }

    /// Of this replica, from 1; no other has it.
    pub fn number(&self) -> u16 {
        self.shared.number
    }

    /// Of this run of this replica.
    pub fn run(&self) -> u64 {
        self.shared.run
    }

    pub fn is_leased(&self) -> bool {
        self.shared.is_leased()
    }

    /// Whether the store does not answer. The first shard is asked each second; of another that
    /// nobody has asked since, it is not known.
    pub fn is_away(&self) -> bool {
        let (now, guards) = (self.shared.clock.own(), &self.shared.guards);
        guards[0].is_open() || guards.iter().any(|guard| guard.refuses(now))
    }

    /// Waits until somebody has told of events since this was last waited for.
    pub async fn new_events(&self) {
        self.shared.news.events.notified().await;
    }

    /// The same of policies.
    pub async fn new_policies(&self) {
        self.shared.news.policies.notified().await;
    }

    /// As they were when this replica connected.
    pub fn policies_at_start(&self) -> Option<&Put> {
        self.shared.policies.get()
    }

    /// # Errors
    /// The store does not answer.
    pub async fn policies(&self) -> Result<Put, StoreError> {
        let place = self.shared.keys.policies();
        let nobody: Version = Some("?".into());
        let asked = self.shared.ask(&place, &nobody, &Act::Look, 0);
        let reply = Box::pin(asked).await?;
        Ok(put_of(reply.outcome))
    }

    /// Whether the store has other policies than these; `None`: it has the same.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn other_policies(&self, than: &Version) -> Result<Option<Put>, StoreError> {
        let place = self.shared.keys.policies();
        let asked = self.shared.ask(&place, than, &Act::Look, 0);
        let reply = Box::pin(asked).await?;
        Ok(match reply.outcome {
            Outcome::Done(_) => None,
            outcome => Some(put_of(outcome)).filter(|put| put.version != *than),
        })
    }

    /// # Errors
    /// The store does not answer; it may have been done or not.
    pub async fn swap_policies(
        &self,
        expected: &Version,
        bytes: Vec<u8>,
    ) -> Result<Swapped, StoreError> {
        let place = self.shared.keys.policies();
        let act = Act::Put {
            bytes,
            kept_for_ms: millis(SHARD_KEPT),
        };
        let asked = self
            .shared
            .ask_and_tell(&place, expected, &act, 0, Tells::That);
        Ok(match Box::pin(asked).await?.outcome {
            Outcome::Done(version) => Swapped::Done(version),
            outcome => Swapped::Other(put_of(outcome)),
        })
    }

    /// They must not lapse while anybody is there.
    pub(super) async fn keep_policies(&self) {
        let place = self.shared.keys.policies();
        let mut keep = cmd("PEXPIRE");
        keep.arg(place.record).arg(millis(SHARD_KEPT));
        // They are kept for a month, and renewed each hour.
        let _ = self.command::<bool>(&keep).await;
    }

    /// Writes down what happened here. `first` is this run's own number of the first of them,
    /// from 1; what was told before is not told again. Returns the number of the newest event.
    ///
    /// # Errors
    /// The store does not answer; it may have been told or not.
    pub async fn tell(
        &self,
        first: u64,
        newest: u64,
        events: &[Vec<u8>],
    ) -> Result<u64, StoreError> {
        let keys = &self.shared.keys;
        let mut call = TELL.key(keys.events());
        call.key(keys.teller(self.shared.run));
        call.arg(first).arg(newest).arg(EVENTS_KEPT);
        call.arg(millis(SHARD_KEPT)).arg(millis(TELLER_KEPT));
        call.arg(keys.news());
        for event in events {
            call.arg(&event[..]);
        }
        self.answered(self.shared.link.run(&call)).await
    }

    /// What happened from the event of this number on, with its numbers: a part of it, the
    /// oldest first.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn events_from(&self, number: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let mut read = cmd("XRANGE");
        let from = format!("{number}-0");
        read.arg(self.shared.keys.events()).arg(from).arg("+");
        read.arg("COUNT").arg(READ_AT_ONCE);
        let all: Entries = self.command(&read).await?;
        let numbered = all.into_iter().filter_map(|(id, mut fields)| {
            let number = id.split('-').next()?.parse().ok()?;
            Some((number, fields.pop()?.1))
        });
        Ok(numbered.collect())
    }

    /// Says that this replica is there, and how it is.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn enrol(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let roll = self.shared.keys.roll();
        let mut set = cmd("HSET");
        set.arg(&roll).arg(self.number()).arg(bytes);
        self.command::<u64>(&set).await?;
        let mut keep = cmd("PEXPIRE");
        keep.arg(&roll).arg(millis(ROLL_KEPT));
        self.command::<bool>(&keep).await?;
        Ok(())
    }

    /// Who is there, or was.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn roll(&self) -> Result<Vec<Enrolled>, StoreError> {
        let mut get = cmd("HGETALL");
        get.arg(self.shared.keys.roll());
        let all: Vec<(u16, Vec<u8>)> = self.command(&get).await?;
        let enrolled = |(number, bytes)| Enrolled { number, bytes };
        Ok(all.into_iter().map(enrolled).collect())
    }

    /// A replica is there no more.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn strike(&self, number: u16) -> Result<(), StoreError> {
        let mut strike = cmd("HDEL");
        strike.arg(self.shared.keys.roll()).arg(number);
        self.command::<u64>(&strike).await?;
        Ok(())
    }

    async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        self.answered(self.shared.link.command(command)).await
    }

    /// The board is looked at by nobody who waits, so it leaves it to others to find out whether
    /// a store that was away is back.
    async fn answered<T>(
        &self,
        asked: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, StoreError> {
        let away = StoreError::Unavailable;
        if self.shared.guard(0).is_open() {
            return Err(away("it did not answer lately".to_owned()));
        }
        let within = 2 * self.shared.timing.answer_within;
        match tokio::time::timeout(within, Box::pin(asked)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(away(error.to_string())),
            Err(_) => Err(away(format!("no answer within {within:?}"))),
        }
    }
}

fn put_of(outcome: Outcome) -> Put {
    match outcome {
        Outcome::Other { version, bytes } => Put {
            version: Some(version),
            bytes,
        },
        Outcome::Done(version) => Put {
            version,
            bytes: Vec::new(),
        },
        Outcome::Absent { .. } => Put {
            version: None,
            bytes: Vec::new(),
        },
    }
}
