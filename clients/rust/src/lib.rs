//! A client of holdoff: asks before a call, retries when it says, and goes on without it
//! when it is away.
//!
//! ```no_run
//! # async fn pay() -> Result<(), std::io::Error> { Ok(()) }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use holdoff_client::{Client, Safety};
//!
//! let client = Client::builder().service("checkout").build()?;
//! client
//!     .call("payments")
//!     .safety(Safety::Idempotent)
//!     .deadline(Duration::from_secs(2))
//!     .run(|_attempt| pay())
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! Where the service has pushed that first attempts go, they go without a question; where it
//! refuses them, they fail at once.
//!
//! The service being down, slow or wrong never fails a call and never delays it by more than
//! the client's timeout (50 ms unless set): the client then decides by the same rules over
//! what this process alone knows.
//!
//! Lowest layer first:
//!
//! - [`proto`], `wire`: the wire contract, and reading it strictly
//! - `question`, `outcome`, `denied`: the words
//! - `clock`, `entropy`, `counters`: the only clock, the only random numbers, what is counted
//! - `credentials`: TLS and tokens
//! - `gate`, `tally`, `reports`, `pushed`, `link`: the way to the service, and what it says unasked
//! - `local`: decisions without it
//! - `asking`, `permit`: one question, one permit (ask and report as two steps)
//! - `call`, [`classify`], [`layer`]: a whole call
//! - `supervisor`, `check`: a task that is restarted, a check that is run again and again
//! - `client`, `builder`, [`operator`]: where it begins
//!
//! It needs a tokio runtime with time and network enabled.

#![warn(missing_docs)]

mod asking;
mod builder;
mod call;
mod check;
pub mod classify;
mod client;
mod clock;
mod counters;
mod credentials;
mod denied;
mod endpoint;
mod entropy;
mod gate;
pub mod layer;
mod link;
mod local;
pub mod operator;
mod outcome;
mod permit;
pub mod proto;
mod pushed;
mod question;
mod reports;
mod supervisor;
mod tally;
#[cfg(test)]
mod tests;
mod wire;

/// The rules and the policy they read.
pub use holdoff_decision as decision;

pub use builder::{BuildError, Builder};
pub use call::{Attempt, Call, OnDenied};
pub use check::{Check, Checked, Checker, Finding, Health, Verdict};
pub use classify::Classify;
pub use client::{Client, OnNoDecision};
pub use counters::Counters;
pub use credentials::{Route, Tls};
pub use denied::{CallError, DenialReason, Denied, DeniedBy};
#[cfg(feature = "reqwest")]
pub use layer::HoldoffMiddleware;
pub use layer::{GrpcLayer, HoldoffLayer};
pub use outcome::{Outcome, OutcomeKind};
pub use permit::Permit;
pub use question::{Priority, Question, Safety};
pub use supervisor::{Failure, Stopped, Supervisor};
