//! A recording's bytes: eight of magic, then frames. A frame is the length of its body (four
//! bytes, little-endian), a sum of the body (four bytes), and the body, a protobuf message.
//!
//! ```text
//! HOLDREC1 | length sum body | length sum body | …
//! ```
//! Protobuf, since a reader of another version skips a field that it does not know; ours by
//! hand, since nobody else reads them and the contract would only grow. What a name, a policy or
//! a draw means is said once per file, so that each file can be read alone.

use std::hash::Hasher;

use prost::Message;
use siphasher::sip::SipHasher13;

pub const MAGIC: &[u8; 8] = b"HOLDREC1";
/// Raised where a reader of before would misread.
pub const VERSION: u32 = 1;
/// No frame is longer: the longest policy is far below.
pub const BODY_MAX: usize = 1 << 20;
pub const HEAD: usize = 8;

#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5")]
    pub kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Kind {
    #[prost(message, tag = "1")]
    Begin(Begin),
    #[prost(message, tag = "2")]
    Policy(Policy),
    #[prost(message, tag = "3")]
    Dependency(Dependency),
    #[prost(message, tag = "4")]
    Happened(Box<Happened>),
    #[prost(message, tag = "5")]
    Gap(Gap),
}

/// The first frame of a file.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Begin {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// The run of the service: when it started.
    #[prost(fixed64, tag = "2")]
    pub run: u64,
    /// As in the context of a decision.
    #[prost(fixed64, optional, tag = "3")]
    pub restarted: Option<u64>,
    #[prost(bool, tag = "4")]
    pub is_on_record: bool,
}

/// A policy, under a number of this file.
#[derive(Clone, PartialEq, Message)]
pub struct Policy {
    #[prost(uint32, tag = "1")]
    pub number: u32,
    #[prost(string, tag = "2")]
    pub document: String,
}

/// A dependency, under a number of this file, and where its breaker was just then.
#[derive(Clone, PartialEq, Message)]
pub struct Dependency {
    #[prost(uint32, tag = "1")]
    pub number: u32,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(string, tag = "3")]
    pub name: String,
    /// 0 closed, 1 open, 2 half-open.
    #[prost(uint32, tag = "4")]
    pub phase: u32,
    #[prost(uint64, tag = "5")]
    pub epoch: u64,
    #[prost(uint32, tag = "6")]
    pub level: u32,
    #[prost(uint32, tag = "7")]
    pub trips: u32,
    #[prost(uint64, tag = "8")]
    pub left_ns: u64,
    #[prost(uint64, tag = "9")]
    pub next_serial: u64,
    /// What it did in health; 0 where that is not known.
    #[prost(uint64, tag = "10")]
    pub per_kilosecond: u64,
    #[prost(uint64, tag = "11")]
    pub latency_ns: u64,
    #[prost(uint32, tag = "12")]
    pub failing_ppm: u32,
}

/// So much was left out here.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Gap {
    #[prost(uint64, tag = "1")]
    pub lost: u64,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Message)]
pub struct Happened {
    #[prost(uint32, tag = "1")]
    pub dependency: u32,
    #[prost(uint32, tag = "2")]
    pub policy: u32,
    #[prost(fixed64, tag = "3")]
    pub now: u64,
    /// The draws, in parts of 2^32: they have no more bits.
    #[prost(fixed32, tag = "4")]
    pub jitter: u32,
    #[prost(fixed32, tag = "5")]
    pub spread: u32,
    #[prost(oneof = "What", tags = "6, 7, 8, 9, 10")]
    pub what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum What {
    #[prost(message, tag = "6")]
    Asked(Asked),
    #[prost(message, tag = "7")]
    Reported(Reported),
    #[prost(message, tag = "8")]
    Tallied(Tallied),
    #[prost(message, tag = "9")]
    Forced(Forced),
    /// 1 released, 2 reset, 3 hold cleared, 4 advanced.
    #[prost(uint32, tag = "10")]
    Other(u32),
}

#[derive(Clone, PartialEq, Message)]
pub struct Asked {
    /// 0 first, 1 retry, 2 hedge, 3 confirm.
    #[prost(uint32, tag = "1")]
    pub question: u32,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
    /// Of the attempt before, or the one to be confirmed.
    #[prost(message, optional, tag = "3")]
    pub permit: Option<Permit>,
    /// What the attempt before was made under: 0 unknown, 1 permit, 2 permit of an earlier run,
    /// 3 an epoch.
    #[prost(uint32, tag = "4")]
    pub made_under: u32,
    #[prost(uint64, tag = "5")]
    pub epoch: u64,
    #[prost(message, optional, tag = "6")]
    pub outcome: Option<Outcome>,
    #[prost(fixed64, tag = "7")]
    pub caller: u64,
    #[prost(fixed64, tag = "8")]
    pub service: u64,
    #[prost(fixed64, optional, tag = "9")]
    pub call: Option<u64>,
    #[prost(bool, tag = "10")]
    pub idempotent: bool,
    #[prost(uint64, optional, tag = "11")]
    pub time_left_ns: Option<u64>,
    /// By its place, from 1.
    #[prost(uint32, tag = "12")]
    pub priority: u32,
    #[prost(uint32, tag = "13")]
    pub cost: u32,
    /// What was granted; absent: it was denied.
    #[prost(message, optional, tag = "14")]
    pub granted: Option<Granted>,
    /// The denial's reason, by its place, from 1.
    #[prost(uint32, tag = "15")]
    pub denied: u32,
    /// What became of the outcome before, from 1; 0: there was none.
    #[prost(uint32, tag = "16")]
    pub previous: u32,
    #[prost(bool, tag = "17")]
    pub went: bool,
    #[prost(uint64, tag = "18")]
    pub next_serial: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Granted {
    #[prost(uint64, tag = "1")]
    pub delay_ns: u64,
    #[prost(message, optional, tag = "2")]
    pub permit: Option<Permit>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Permit {
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    #[prost(uint64, tag = "2")]
    pub serial: u64,
    #[prost(fixed64, tag = "3")]
    pub issued: u64,
    #[prost(uint64, tag = "4")]
    pub delay_ns: u64,
    #[prost(fixed64, tag = "5")]
    pub expires: u64,
    #[prost(uint32, tag = "6")]
    pub retry: u32,
    /// By its place, from 1.
    #[prost(uint32, tag = "7")]
    pub kind: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Outcome {
    /// By its place, from 1.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(uint64, optional, tag = "2")]
    pub latency_ns: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub pushback_ns: Option<u64>,
    #[prost(bool, tag = "4")]
    pub do_not_retry: bool,
    #[prost(bool, tag = "5")]
    pub retried_below: bool,
    #[prost(bool, tag = "6")]
    pub restarts_backoff: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Reported {
    #[prost(message, optional, tag = "1")]
    pub permit: Option<Permit>,
    #[prost(message, optional, tag = "2")]
    pub outcome: Option<Outcome>,
    #[prost(fixed64, tag = "3")]
    pub reporter: u64,
    /// By its place, from 1.
    #[prost(uint32, tag = "4")]
    pub result: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Tallied {
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    #[prost(uint32, tag = "2")]
    pub first_attempts: u32,
    #[prost(uint32, tag = "3")]
    pub successes: u32,
    #[prost(uint32, tag = "4")]
    pub failures: u32,
    #[prost(uint32, tag = "5")]
    pub timeouts: u32,
    #[prost(uint32, tag = "6")]
    pub throttled: u32,
    #[prost(uint32, tag = "7")]
    pub rejected: u32,
    #[prost(uint32, tag = "8")]
    pub slow: u32,
    #[prost(fixed64, tag = "9")]
    pub reporter: u64,
    /// By its place, from 1.
    #[prost(uint32, tag = "10")]
    pub result: u32,
    #[prost(bool, tag = "11")]
    pub went: bool,
    #[prost(uint64, tag = "12")]
    pub next_serial: u64,
    #[prost(uint32, tag = "13")]
    pub ignored: u32,
    #[prost(uint64, tag = "14")]
    pub latency_sum: u64,
}

/// Who forced it, and why, is in the audit log.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Forced {
    #[prost(bool, tag = "1")]
    pub open: bool,
    #[prost(fixed64, optional, tag = "2")]
    pub expires: Option<u64>,
}

/// Appends one frame.
pub fn put(bytes: &mut Vec<u8>, kind: Kind) {
    let body = Frame { kind: Some(kind) }.encode_to_vec();
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&sum(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
}

/// Tells accident from a frame; it is no protection against anybody.
pub fn sum(body: &[u8]) -> u32 {
    let mut hasher = SipHasher13::new();
    hasher.write(body);
    hasher.finish() as u32
}
