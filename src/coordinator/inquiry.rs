//! What the coordinator is asked, once it has been found to make sense.

use bytes::Bytes;
use holdoff_decision::{Answer, Nanos, Outcome, Tally, calendar::Priority};

/// A dependency's name as a client wrote it, valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    pub namespace: &'a str,
    pub dependency: &'a str,
}

/// One question.
#[derive(Clone, Debug)]
pub struct Inquiry<'a> {
    pub key: Key<'a>,
    pub caller: Caller<'a>,
    pub subject: Subject<'a>,
    /// Empty: none.
    pub call_id: &'a str,
    pub idempotent: bool,
    pub time_left: Option<Nanos>,
    pub cost: u32,
    pub priority: Priority,
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller<'a> {
    pub service: &'a str,
    pub instance: &'a str,
}

/// What is asked about.
#[derive(Clone, Debug)]
pub enum Subject<'a> {
    First,
    Retry {
        attempt: u32,
        made: Made<'a>,
        outcome: Outcome,
    },
    Hedge {
        attempt: u32,
    },
    Confirm(&'a [u8]),
}

/// What the attempt before was made under.
#[derive(Clone, Copy, Debug)]
pub enum Made<'a> {
    Permit(&'a [u8]),
    Epoch(u64),
    /// Nothing that this service gave: it was away then.
    Nothing,
}

/// The answer to one question.
#[derive(Clone, Debug)]
pub struct Decision {
    pub answer: Answer,
    /// Of a grant.
    pub permit: Option<Bytes>,
    /// From this replica's memory alone: the shared store is away.
    pub degraded: bool,
}

/// One thing reported.
#[derive(Clone, Debug)]
pub enum Entry<'a> {
    Permit(&'a [u8], Outcome),
    Tally(&'a str, Tally),
}

/// An operator, and why.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    pub owner: &'a str,
    pub reason: &'a str,
}

/// Who brought a change about.
#[derive(Clone, Copy, Debug)]
pub enum Who<'a> {
    /// Time.
    Nobody,
    Caller(Caller<'a>),
    Operator(Actor<'a>),
}
