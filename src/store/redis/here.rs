//! The store's side in this process: what `swap.lua` and the few commands beside it do, on the
//! runtime's clock, and what it all costs. For sizes that fit no machine: on a clock that is paused
//! a second of a great fleet takes as long as its decisions do. Not a store to run a service on.

use std::{
    collections::{BTreeMap, HashMap},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ::redis::{Arg, Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use holdoff_decision::Time;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::{Stream, wrappers::UnboundedReceiverStream};

use super::script::{Act, Call, Outcome, Reply};

/// What the wire adds to each argument of a command: its length, as RESP writes it.
const FRAME: usize = 7;
/// `EVALSHA`, the digest of the script, and the number of keys.
const EVALSHA: usize = 80;
/// What the wire adds to a message that is told: its kind and the lengths.
const TOLD: usize = 40;

/// What is told on a channel: its name and the message.
pub type Heard = (Arc<str>, Arc<[u8]>);

/// See the module.
#[derive(Debug)]
pub struct Here {
    inside: Mutex<Inside>,
    began: Instant,
    /// Of the wall clock that a server would have, when it began.
    origin: Time,
    /// To the store and back.
    round_trip: Duration,
}

#[derive(Debug, Default)]
struct Inside {
    records: HashMap<String, (u64, Vec<u8>)>,
    /// Last version and highest epoch.
    shards: HashMap<String, (u64, u64)>,
    indexes: HashMap<String, BTreeMap<String, u64>>,
    strings: HashMap<String, Vec<u8>>,
    followers: Vec<mpsc::UnboundedSender<Heard>>,
    cost: Cost,
}

/// What was asked of the store since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls of the script.
    pub calls: u64,
    /// Those that swapped something in.
    pub swapped: u64,
    /// Those that found another version.
    pub lost: u64,
    /// Messages between replicas.
    pub published: u64,
    pub other_commands: u64,
    /// From the replicas, in bytes.
    pub received: u64,
    /// To the replicas in answers, in bytes.
    pub answered: u64,
    /// To the replicas in messages of both kinds, in bytes: one for each that listens.
    pub told: u64,
}

impl Cost {
    /// Commands of all kinds.
    pub fn commands(&self) -> u64 {
        self.calls + self.published + self.other_commands
    }

    /// What was asked since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            swapped: self.swapped - before.swapped,
            lost: self.lost - before.lost,
            published: self.published - before.published,
            other_commands: self.other_commands - before.other_commands,
            received: self.received - before.received,
            answered: self.answered - before.answered,
            told: self.told - before.told,
        }
    }
}

impl Here {
    pub fn new(origin: Time, round_trip: Duration) -> Self {
        Self {
            inside: Mutex::default(),
            began: crate::clock::instant(),
            origin,
            round_trip,
        }
    }

    pub fn cost(&self) -> Cost {
        self.inside().cost
    }

    /// Bytes of all records, and how many they are.
    pub fn held(&self) -> (usize, usize) {
        let inside = self.inside();
        let bytes = inside.records.iter();
        let bytes = bytes.map(|(key, (_, bytes))| key.len() + bytes.len()).sum();
        (bytes, inside.records.len())
    }

    /// Messages of all channels.
    pub fn follow(&self) -> Pin<Box<dyn Stream<Item = Heard> + Send>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.inside().followers.push(sender);
        Box::pin(UnboundedReceiverStream::new(receiver))
    }

    /// As the script says.
    pub(super) async fn call(&self, call: &Call<'_>) -> Reply {
        tokio::time::sleep(self.round_trip / 2).await;
        let reply = self.swap(call);
        tokio::time::sleep(self.round_trip / 2).await;
        reply
    }

    /// # Errors
    /// The command is none of those that replicas send.
    pub(super) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        tokio::time::sleep(self.round_trip / 2).await;
        let value = self.answer(command)?;
        tokio::time::sleep(self.round_trip / 2).await;
        T::from_redis_value(value).map_err(RedisError::from)
    }

    fn swap(&self, call: &Call<'_>) -> Reply {
        let time = Time(self.origin.0 + nanos(self.began.elapsed()));
        let now = time.0 / 1_000;
        let mut guard = self.inside();
        let inside = &mut *guard;
        let place = call.place;
        let held = inside
            .records
            .get(&place.record)
            .map(|(version, _)| *version);
        let expected = call.expected.as_deref();
        let is_expected = held.map(|version| version.to_string()).as_deref() == expected;
        let put = match call.act {
            Act::Put { bytes, .. } => bytes.len(),
            Act::Look | Act::Drop => 0,
        };
        let keys = place.record.len() + place.shard.len() + place.index.len();
        let words = expected.map_or(0, str::len) + 2 * place.id.len() + place.channel.len() + 40;
        inside.cost.calls += 1;
        inside.cost.received += (EVALSHA + keys + words + put + 13 * FRAME) as u64;
        let (last, highest_epoch) = inside.shards.get(&place.shard).copied().unwrap_or_default();
        let outcome = match (is_expected, call.act) {
            (true, Act::Look) => Outcome::Done(held.map(word)),
            (true, act) => {
                let version = now.max(last + 1);
                let epochs = (version, highest_epoch.max(call.epoch));
                inside.shards.insert(place.shard.clone(), epochs);
                inside.cost.swapped += 1;
                let index = inside.indexes.entry(place.index.clone()).or_default();
                let swapped = match act {
                    Act::Put { bytes, .. } => {
                        if !place.id.is_empty() {
                            index.insert(place.id.clone(), now / 1_000);
                        }
                        let record = (version, bytes.clone());
                        inside.records.insert(place.record.clone(), record);
                        Some(word(version))
                    }
                    Act::Look | Act::Drop => {
                        index.remove(&place.id);
                        inside.records.remove(&place.record);
                        None
                    }
                };
                if let Some(message) = call.told(swapped.as_deref()) {
                    inside.publish(&place.channel, message);
                }
                Outcome::Done(swapped)
            }
            (false, _) => {
                inside.cost.lost += 1;
                if held.is_none()
                    && let Some(index) = inside.indexes.get_mut(&place.index)
                {
                    index.remove(&place.id);
                }
                match inside.records.get(&place.record) {
                    Some((version, bytes)) => Outcome::Other {
                        version: word(*version),
                        bytes: bytes.clone(),
                    },
                    None => Outcome::Absent { highest_epoch },
                }
            }
        };
        let bytes = match &outcome {
            Outcome::Other { bytes, .. } => bytes.len(),
            Outcome::Done(_) | Outcome::Absent { .. } => 0,
        };
        inside.cost.answered += (bytes + 16 + 20 + 4 * FRAME) as u64;
        Reply { outcome, time }
    }

    fn answer(&self, command: &Cmd) -> RedisResult<Value> {
        let words: Vec<&[u8]> = (command.args_iter())
            .map(|arg| match arg {
                Arg::Simple(bytes) => bytes,
                _ => b"",
            })
            .collect();
        let text = |at: usize| {
            let word = words.get(at).copied().unwrap_or_default();
            String::from_utf8_lossy(word).into_owned()
        };
        let mut inside = self.inside();
        inside.cost.received += command.get_packed_command().len() as u64;
        match text(0).as_str() {
            "PUBLISH" => {
                inside.cost.published += 1;
                let message = words.get(2).copied().unwrap_or_default().to_vec();
                let told = inside.publish(&text(1), message);
                return Ok(Value::Int(told));
            }
            _ => inside.cost.other_commands += 1,
        }
        let key = text(1);
        match text(0).as_str() {
            "SET" if inside.strings.contains_key(&key) => Ok(Value::Nil),
            "SET" => {
                let value = words.get(2).copied().unwrap_or_default().to_vec();
                inside.strings.insert(key, value);
                Ok(Value::Okay)
            }
            "GETEX" => Ok(match inside.strings.get(&key) {
                Some(value) => Value::BulkString(value.clone()),
                None => Value::Nil,
            }),
            "PEXPIRE" => Ok(Value::Int(1)),
            "EXISTS" => Ok(Value::Int(inside.strings.contains_key(&key).into())),
            "ZADD" => {
                let at = text(2).parse().unwrap_or(0_u64);
                let before = inside.indexes.entry(key).or_default().insert(text(3), at);
                Ok(Value::Int(before.is_none().into()))
            }
            "ZCOUNT" => {
                // Above it: `(<score>`.
                let above = text(2).trim_start_matches('(').parse().unwrap_or(0_u64);
                let scores = inside.indexes.get(&key).into_iter().flatten();
                let count = scores.filter(|(_, at)| **at > above).count();
                Ok(Value::Int(count as i64))
            }
            "ZREMRANGEBYSCORE" => {
                let upto = text(3).parse().unwrap_or(0_u64);
                let index = inside.indexes.entry(key).or_default();
                let before = index.len();
                index.retain(|_, at| *at > upto);
                Ok(Value::Int((before - index.len()) as i64))
            }
            "ZRANGEBYSCORE" => {
                // With scores and a limit, from one score on and perhaps before another.
                let from = text(2).parse().unwrap_or(0_u64);
                let before = text(3).trim_start_matches('(').parse().unwrap_or(u64::MAX);
                let (skipped, most) = (text(6).parse().unwrap_or(0), text(7).parse().unwrap_or(0));
                let all = inside.indexes.get(&key).into_iter().flatten();
                let mut all: Vec<_> = (all.map(|(id, at)| (*at, id)))
                    .filter(|(at, _)| (from..before).contains(at))
                    .collect();
                all.sort_unstable();
                let some = all.into_iter().skip(skipped).take(most);
                let words = some.flat_map(|(at, id)| [id.clone(), at.to_string()]);
                Ok(Value::Array(
                    words
                        .map(|word| Value::BulkString(word.into_bytes()))
                        .collect(),
                ))
            }
            other => Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "the store in this process does not know the command",
                other.to_owned(),
            ))),
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn publish(&mut self, channel: &str, message: Vec<u8>) -> i64 {
        let (channel, message): Heard = (channel.into(), message.into());
        self.followers.retain(|follower| {
            let heard = (Arc::clone(&channel), Arc::clone(&message));
            follower.send(heard).is_ok()
        });
        let told = self.followers.len();
        self.cost.told += ((message.len() + channel.len() + TOLD) * told) as u64;
        told as i64
    }
}

fn word(version: u64) -> Box<str> {
    version.to_string().into_boxed_str()
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
