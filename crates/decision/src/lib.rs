//! The rules of holdoff, pure: `(policy, state, event, now, sample) -> (state, answer)`.
//!
//! Nothing here reads a clock, draws a random number, takes a lock, writes a log or waits,
//! and nothing panics on any input. The caller reads the clock and draws the sample once
//! and hands both in, so the same inputs give the same answer everywhere: in the service,
//! in clients that have lost it, and in a table of vectors that other languages check too.
//!
//! Lowest layer first:
//!
//! - [`bytes`]: what is remembered, as bytes that any process can read
//! - [`time`]: instants and spans in whole nanoseconds, saturating
//! - [`share`]: exact shares in parts per million
//! - [`policy`]: what an operator may set, as the rules read it
//! - [`backoff`], [`pushback`], [`rate`], [`budget`], [`window`], [`detector`], [`calendar`],
//!   [`throughput`], [`ramp`]: one rule each
//! - [`evidence`]: whom the evidence comes from, so that one bad instance opens nothing
//! - [`check`]: when each checker of a fleet runs its next health check
//! - [`permit`]: the words of questions and answers
//! - [`tickets`], [`replay`]: which permits were used, which answers can be given again
//! - [`breaker`]: closed, open, half-open, and the leases of probes
//! - [`alone`]: what one of several replicas may do while their store is away
//! - [`record`]: all that is remembered of one dependency
//! - [`mod@acquire`], [`mod@report`], [`operate`], [`view`]: the compositions that hold the order

#![allow(
    clippy::box_collection,
    reason = "a record has eight bytes for what most dependencies never need, not 24"
)]

pub mod acquire;
pub mod alone;
pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod bytes;
pub mod calendar;
pub mod check;
pub mod detector;
pub mod evidence;
pub mod operate;
pub mod permit;
pub mod policy;
pub mod pushback;
pub mod ramp;
pub mod rate;
pub mod record;
pub mod replay;
pub mod report;
pub mod share;
pub mod standing;
pub mod throughput;
pub mod tickets;
pub mod time;
pub mod view;
pub mod window;

pub use acquire::{
    Answer, Ask, MadeUnder, Previous, Question, Reach, acquire, reach_of_ask, reach_of_report,
    reach_of_tally,
};
pub use calendar::Priority;
pub use permit::{Denial, DenialReason, Grant, Outcome, OutcomeKind, Permit, PermitKind, Reported};
pub use policy::Policy;
pub use record::{Context, Record, Restart, Sample, State, Summary};
pub use report::{Tally, report, tally};
pub use share::Share;
pub use time::{Nanos, Time};
