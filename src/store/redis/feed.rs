//! What replicas tell each other over Pub/Sub. On the leased path: each change of a record with
//! its bytes, and, at most every 100 ms, how attempts ended. On the strict path: changes that
//! callers see, with their bytes, for those who follow without asking.
//!
//! One message tells of all dependencies that have something to tell, so its cost does not rise with
//! their number. Successes alone wait three times as long. A message is taken once, by the number
//! of its replica and its own; one that is lost costs evidence, or a duplicate that is not told
//! from a first report: nothing that is swapped. A connection that says nothing for so long that
//! this replica must have heard itself is made again, and then every copy is looked at.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ::redis::{
    Client, RedisError, RedisResult,
    aio::PubSub,
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use holdoff_decision::{
    Summary, Time,
    bytes::{Bytes, Corrupt, Reader},
};
use tokio_stream::{Stream, StreamExt as _};

use super::{
    Counted, Shared,
    address::{Address, Kind},
    here::{Heard, Here},
    keys, link, locked,
};
use crate::{
    permit::DependencyId,
    store::{Numbered, sequences::Sequences},
};

const TELL_EVERY: Duration = Duration::from_millis(100);
/// Rounds between messages that tell of successes alone.
const SUCCESSES_EVERY: u64 = 4;
/// Rounds between looks for debts to the fleet's budgets, and between signs of life.
const SETTLE_EVERY: u64 = 10;
const ALIVE_EVERY: u64 = 20;
/// This replica hears its own signs of life.
const SILENT_MAX: Duration = Duration::from_secs(7);
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Dependencies in one message.
const TOLD_AT_ONCE: usize = 256;
/// Numbers of reports that wait to be told; the others are known here alone.
const SEQUENCES_MAX: usize = 4_096;

/// See the module.
#[derive(Debug)]
pub struct Feed {
    replica: u16,
    sent: AtomicU64,
    sequences: Sequences,
    outgoing: Mutex<Outgoing>,
    /// The last message of each replica.
    heard: Mutex<HashMap<u16, u64>>,
}

#[derive(Debug, Default)]
struct Outgoing {
    listed: Vec<DependencyId>,
    sequences: Vec<(u64, u64)>,
}

/// What one replica tells.
#[derive(Debug, PartialEq)]
struct Message {
    replica: u16,
    number: u64,
    summaries: Vec<(u64, Summary)>,
    sequences: Vec<(u64, u64)>,
}

impl Message {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.replica.write(&mut out);
        self.number.write(&mut out);
        self.summaries.write(&mut out);
        self.sequences.write(&mut out);
        out
    }

    fn of_bytes(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut from = Reader::new(bytes);
        Ok(Self {
            replica: Bytes::read(&mut from)?,
            number: Bytes::read(&mut from)?,
            summaries: Bytes::read(&mut from)?,
            sequences: Bytes::read(&mut from)?,
        })
    }
}

impl Feed {
    pub fn new(replica: u16) -> Self {
        Self {
            replica,
            sent: AtomicU64::new(0),
            sequences: Sequences::default(),
            outgoing: Mutex::default(),
            heard: Mutex::default(),
        }
    }

    /// A dependency has something to tell.
    pub fn list(&self, id: DependencyId) {
        self.outgoing().listed.push(id);
    }

    /// Notes a numbered report. False: it was noted before, here or by one who has told of it.
    pub fn note_sequence(&self, instance: u64, sequence: u64, now: Time) -> bool {
        self.sequences.note(instance, sequence, now)
    }

    /// Only what was taken is told.
    pub fn end_sequence(&self, instance: u64, sequence: u64, ended: Numbered) {
        match ended {
            Numbered::NotTaken => self.sequences.forget(instance, sequence),
            Numbered::Taken => {
                let mut outgoing = self.outgoing();
                if outgoing.sequences.len() < SEQUENCES_MAX {
                    outgoing.sequences.push((instance, sequence));
                }
            }
        }
    }

    fn outgoing(&self) -> std::sync::MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: a message of this replica, or one that was taken before. Otherwise how many before it
    /// never came.
    fn take(&self, message: &Message) -> Option<u64> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let last = heard.entry(message.replica).or_default();
        let takes = message.replica != self.replica && message.number > *last;
        // What was told before this replica heard of the other is not missed.
        let first = match *last {
            0 => message.number,
            last => last + 1,
        };
        *last = message.number.max(*last);
        takes.then(|| message.number - first)
    }
}

/// What is told on all channels, as it comes.
type Messages = Pin<Box<dyn Stream<Item = Heard> + Send>>;

/// Where messages come from.
#[derive(Clone, Debug)]
pub enum Source {
    Server(Address),
    Here(Arc<Here>),
}

impl Source {
    pub fn prefix(&self) -> &str {
        match self {
            Self::Server(address) => address.prefix(),
            Self::Here(_) => "holdoff:",
        }
    }

    pub fn database(&self) -> i64 {
        match self {
            Self::Server(address) => address.redis_settings().db(),
            Self::Here(_) => 0,
        }
    }

    pub fn is_cluster(&self) -> bool {
        match self {
            Self::Server(address) => matches!(address.kind(), Kind::Cluster),
            Self::Here(_) => false,
        }
    }

    async fn follow(&self, keys: &keys::Keys) -> RedisResult<Messages> {
        match self {
            Self::Server(address) => {
                let messages = subscribe(address, keys).await?.into_on_message();
                Ok(Box::pin(messages.map(|message| {
                    let channel = message.get_channel_name().into();
                    (channel, message.get_payload_bytes().into())
                })))
            }
            Self::Here(here) => Ok(here.follow()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(address) => address.fmt(f),
            Self::Here(_) => f.write_str("in this process"),
        }
    }
}

/// Follows what others tell, and tells what happens here, while the store is used.
///
/// # Errors
/// The store cannot be followed.
pub async fn follow(shared: &Arc<Shared>, source: Source) -> RedisResult<()> {
    let first = source.follow(&shared.keys).await?;
    shared.meet_server().await;
    tokio::spawn(listen(Arc::downgrade(shared), source, first));
    tokio::spawn(speak(Arc::downgrade(shared)));
    Ok(())
}

async fn subscribe(address: &Address, keys: &keys::Keys) -> RedisResult<PubSub> {
    let mut last = None;
    for server in address.servers() {
        let client = match address.kind() {
            // In a cluster any node tells what was published at any other.
            Kind::One | Kind::Cluster => Client::open(server.clone()),
            Kind::Sentinels { master } => master_of(address, master).await,
        };
        let following = async {
            let mut following = client?.get_async_pubsub().await?;
            following.subscribe(keys.channels()).await?;
            Ok::<_, RedisError>(following)
        };
        match tokio::time::timeout(link::CONNECT_WITHIN, following).await {
            Ok(Ok(following)) => return Ok(following),
            Ok(Err(error)) => last = Some(error),
            Err(_) => {}
        }
    }
    let silent = (::redis::ErrorKind::Io, "it does not answer");
    Err(last.unwrap_or_else(|| RedisError::from(silent)))
}

async fn master_of(address: &Address, master: &str) -> RedisResult<Client> {
    let of_master =
        SentinelNodeConnectionInfo::default().set_redis_connection_info(address.redis_settings());
    let of_master = match address.is_encrypted() {
        true => of_master.set_tls_mode(::redis::TlsMode::Secure),
        false => of_master,
    };
    let mut sentinels = SentinelClient::build(
        address.servers().to_vec(),
        master,
        Some(of_master),
        SentinelServerType::Master,
    )?;
    sentinels.async_get_client().await
}

async fn listen(shared: Weak<Shared>, source: Source, first: Messages) {
    let mut following = Some(first);
    // Since all that it might not have heard was looked at.
    let mut unheard = Duration::ZERO;
    loop {
        if let Some(mut messages) = following.take() {
            while let Ok(Some(heard)) = tokio::time::timeout(SILENT_MAX, messages.next()).await {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let (channel, message) = heard;
                shared.doubts.hear(shared.clock.own());
                shared.take_message(&channel, &message);
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.note_silence();
        following = source.follow(&shared.keys).await.ok();
        unheard += AGAIN_AFTER;
        if following.is_some() && shared.meet_server().await {
            shared.news.tell_all();
            shared.suspect_loss();
        } else if following.is_some() || unheard >= SILENT_MAX && !shared.is_away() {
            shared.news.tell_all();
            shared.look_at_all().await;
            unheard = Duration::ZERO;
        }
    }
}

async fn speak(shared: Weak<Shared>) {
    for round in 0_u64.. {
        tokio::time::sleep(TELL_EVERY).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.is_leased() {
            if round % SETTLE_EVERY == 0 {
                shared.settle_debts();
            }
            shared.tell_others(round).await;
        } else if round.is_multiple_of(ALIVE_EVERY) && !shared.is_away() {
            shared.publish(Vec::new(), Vec::new()).await;
        }
    }
}

impl Shared {
    fn take_message(self: &Arc<Self>, channel: &str, payload: &[u8]) {
        if channel == self.keys.news() {
            self.news.tell(payload);
            return;
        }
        if channel != self.keys.told() {
            self.take_change(payload);
            return;
        }
        // What cannot be read is of another version of holdoff.
        let Ok(message) = Message::of_bytes(payload) else {
            return;
        };
        let Some(lost) = self.feed.take(&message) else {
            return;
        };
        self.counts.add(Counted::Heard);
        self.counts.add_many(Counted::Lost, lost);
        let now = self.clock.now();
        for (instance, sequence) in message.sequences {
            self.feed.sequences.note(instance, sequence, now);
        }
        for (id, summary) in message.summaries {
            let id = DependencyId(id);
            let Some(desk) = self.desks.get(&id).map(|desk| Arc::clone(&desk)) else {
                continue;
            };
            let mut at = locked(&desk);
            at.hear(summary, now);
            self.tell_news(id, &mut at);
            self.dispatch(id, &desk, &mut at);
        }
    }

    /// `<id, 16 digits><replica, 4> <version> <bytes>`
    fn take_change(self: &Arc<Self>, payload: &[u8]) {
        let Some((head, rest)) = payload.split_at_checked(20) else {
            return;
        };
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let id = text(&head[..16]).and_then(keys::id_of);
        let by = text(&head[16..]).and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let mut parts = rest.splitn(3, |byte| *byte == b' ').skip(1);
        let (Some(id), Some(by), Some(version), Some(bytes)) =
            (id, by, parts.next().and_then(text), parts.next())
        else {
            return;
        };
        if by == self.feed.replica || version.is_empty() {
            return;
        }
        let is_found = !self.desks.contains_key(&id);
        let desk = self.desk(id);
        let mut at = locked(&desk);
        at.overhear(version, bytes, self.clock.now());
        if is_found && self.is_foreign(id, &at) {
            drop(at);
            return self.give_up(id);
        }
        self.note_copy(id, &at);
        self.tell_news(id, &mut at);
        self.dispatch(id, &desk, &mut at);
    }

    async fn tell_others(self: &Arc<Self>, round: u64) {
        if self.is_away() {
            // It is told when the store is back.
            return;
        }
        let with_successes = round.is_multiple_of(SUCCESSES_EVERY);
        let (listed, sequences) = {
            let mut outgoing = self.feed.outgoing();
            (
                std::mem::take(&mut outgoing.listed),
                std::mem::take(&mut outgoing.sequences),
            )
        };
        let mut later = Vec::new();
        let mut summaries = Vec::new();
        for id in listed {
            let Some(desk) = self.desks.get(&id).map(|desk| Arc::clone(&desk)) else {
                continue;
            };
            let mut at = locked(&desk);
            let waits = !with_successes && !at.has_failures();
            if waits || !at.is_in_place() {
                later.push(id);
            } else if let Some(summary) = at.take_gathered() {
                summaries.push((id.0, summary));
            }
        }
        self.feed.outgoing().listed.extend(later);
        if summaries.is_empty() && sequences.is_empty() {
            if round.is_multiple_of(ALIVE_EVERY) {
                self.publish(Vec::new(), Vec::new()).await;
            }
            return;
        }
        let mut sequences = sequences;
        while !(summaries.is_empty() && sequences.is_empty()) {
            let rest = summaries.split_off(summaries.len().min(TOLD_AT_ONCE));
            let some = std::mem::replace(&mut summaries, rest);
            self.publish(some, std::mem::take(&mut sequences)).await;
        }
    }

    async fn publish(&self, summaries: Vec<(u64, Summary)>, sequences: Vec<(u64, u64)>) {
        let message = Message {
            replica: self.feed.replica,
            number: self.feed.sent.fetch_add(1, Ordering::Relaxed) + 1,
            summaries,
            sequences,
        };
        let mut command = ::redis::cmd("PUBLISH");
        command.arg(self.keys.told()).arg(message.to_bytes());
        self.counts.add(Counted::Publish);
        self.counts.add(Counted::Told);
        let published = self.link.command::<u64>(&command);
        // What was not told is lost: the others have evidence of their own.
        let _ = tokio::time::timeout(self.timing.answer_within, published).await;
    }

    fn settle_debts(self: &Arc<Self>) {
        let now = self.clock.now();
        let all: Vec<_> = (self.desks.iter())
            .map(|desk| (*desk.key(), Arc::clone(&desk)))
            .collect();
        for (id, desk) in all {
            let mut at = locked(&desk);
            at.settle_debts(now);
            self.dispatch(id, &desk, &mut at);
        }
    }

    /// Something may have been missed.
    async fn look_at_all(self: &Arc<Self>) {
        let all: Vec<_> = self.desks.iter().map(|desk| *desk.key()).collect();
        for id in all {
            locked(&self.desk(id)).doubt();
            self.load(id).await;
        }
    }
}
