//! One call of the one script, and its answer. See `swap.lua` for the contract.

use std::sync::LazyLock;

use ::redis::{ErrorKind, FromRedisValue, ParsingError, RedisResult, Script, Value};
use holdoff_decision::Time;

use super::{keys::Place, link::Link};

static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("swap.lua")));

/// What a record is known by; `None`: there is none.
pub type Version = Option<Box<str>>;

/// What is done where the version is the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Look,
    Put { bytes: Vec<u8>, kept_for_ms: u64 },
    Drop,
}

#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub place: &'a Place,
    pub expected: &'a Version,
    pub act: &'a Act,
    pub epoch: u64,
    /// How long the shard's own keys are kept.
    pub shard_kept_for_ms: u64,
    /// Who tells the others, by its number.
    pub by: u16,
    pub tells: Tells,
}

/// What the others are told of a change, where its place has a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    Nothing,
    That,
    /// With its version and its bytes.
    Bytes,
}

/// What the store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub outcome: Outcome,
    pub time: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It had the expected version, and has this one now.
    Done(Version),
    /// It has another one.
    Other { version: Box<str>, bytes: Vec<u8> },
    /// There is no record. No epoch of its shard was higher.
    Absent { highest_epoch: u64 },
}

impl Call<'_> {
    /// # Errors
    /// The store cannot be reached, or refuses.
    pub async fn run(&self, link: &Link) -> RedisResult<Reply> {
        if let Link::Here(here) = link {
            return Ok(here.call(self).await);
        }
        let (act, bytes, kept_for) = match self.act {
            Act::Look => ("look", &[][..], 0),
            Act::Put { bytes, kept_for_ms } => ("put", &bytes[..], *kept_for_ms),
            Act::Drop => ("drop", &[][..], 0),
        };
        let (told, whole) = match self.tells {
            Tells::Nothing => ("", "0"),
            Tells::That => (&*self.place.channel, "0"),
            Tells::Bytes => (&*self.place.channel, "1"),
        };
        let by = self.by;
        let mut call = SWAP.key(&self.place.record);
        call.key(&self.place.shard).key(&self.place.index);
        call.arg(act)
            .arg(self.expected.as_deref().unwrap_or_default())
            .arg(&self.place.id)
            .arg(bytes)
            .arg(kept_for)
            .arg(self.shard_kept_for_ms)
            .arg(self.epoch)
            .arg(told)
            .arg(format!("{}{by:04x}", self.place.id))
            .arg(whole);
        link.run(&call).await
    }

    /// What is told of a swap, as the script writes it; `None`: nobody is told.
    pub fn told(&self, version: Option<&str>) -> Option<Vec<u8>> {
        let (by, whole) = match self.tells {
            Tells::Nothing => return None,
            Tells::That => (self.by, false),
            Tells::Bytes => (self.by, true),
        };
        let mut told = format!("{}{by:04x}", self.place.id).into_bytes();
        if whole {
            told.extend(format!(" {} ", version.unwrap_or_default()).bytes());
            if let Act::Put { bytes, .. } = self.act {
                told.extend(bytes);
            }
        }
        Some(told)
    }
}

impl FromRedisValue for Reply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let parts: Vec<Value> = FromRedisValue::from_redis_value(value)?;
        let mut parts = parts.into_iter();
        let mut next = || {
            parts
                .next()
                .ok_or("an answer of the script ends too soon".to_owned())
        };
        let as_expected = i64::from_redis_value(next()?)? == 1;
        let version = String::from_redis_value(next()?)?;
        let micros = u64::from_redis_value(next()?)?;
        let version = (!version.is_empty()).then(|| version.into_boxed_str());
        let outcome = match (as_expected, version) {
            (true, version) => Outcome::Done(version),
            (false, Some(version)) => Outcome::Other {
                version,
                bytes: FromRedisValue::from_redis_value(next()?)?,
            },
            (false, None) => {
                next()?;
                Outcome::Absent {
                    highest_epoch: FromRedisValue::from_redis_value(next()?)?,
                }
            }
        };
        Ok(Self {
            outcome,
            time: Time(micros.saturating_mul(1_000)),
        })
    }
}

/// What a server says of one call; whatever else it says it would say to any.
const OF_THIS_CALL: [&str; 3] = ["ERR", "WRONGTYPE", "NOSCRIPT"];
/// What it says to any, where it is told behind another word: that of the script in which it fails.
const OF_ALL: [&str; 10] = [
    "OOM ",
    "READONLY ",
    "MISCONF ",
    "NOREPLICAS ",
    "MASTERDOWN ",
    "CLUSTERDOWN ",
    "NOPERM ",
    "ACL failure",
    "executing the script can't run this command",
    "executing the script can't access",
];

/// Whether what went wrong is the store's word about this very call, and not its being away.
pub fn is_refusal(error: &::redis::RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let told = error.to_string();
            let code = error.code().unwrap_or_default();
            OF_THIS_CALL.contains(&code) && !OF_ALL.iter().any(|words| told.contains(words))
        }
        ErrorKind::UnexpectedReturnType => true,
        _ => false,
    }
}
