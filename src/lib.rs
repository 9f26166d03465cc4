//! holdoff: one circuit breaker, one retry budget and one calendar of retries per
//! dependency, shared by a whole fleet.
//!
//! Lowest layer first; a module uses only what stands above it here:
//!
//! - `holdoff_decision` (crate): the rules, pure
//! - [`proto`]: the wire contract, generated
//! - [`clock`], [`entropy`]: the only clock that is read, the only random numbers drawn
//! - [`candidate`]: a policy that is tried beside the live one, and the difference, counted
//! - [`recording`], [`replay`]: what happened, written down, and run through another policy
//! - [`comparison`]: that difference, as the contract writes it
//! - [`permit`]: permits as bytes that only this service can have made
//! - [`policy`]: what operators write, checked and resolved
//! - [`access`]: who asks, and what they may do
//! - [`durable`]: what survives a kill
//! - [`store`]: the records of all dependencies, changed by one verb
//! - [`telemetry`]: every counter
//! - [`coordinator`]: a question becomes an answer; events; what operators do
//! - [`grpc`]: the wire, one short handler an RPC
//! - [`dashboard`]: pages for operators
//! - [`settings`], [`server`]: the composition root
//! - [`cli`]: parse, call, render

pub mod access;
pub mod candidate;
pub mod cli;
pub mod clock;
pub mod comparison;
pub mod coordinator;
pub mod dashboard;
pub mod durable;
pub mod entropy;
pub mod grpc;
pub mod permit;
pub mod policy;
pub mod proto;
pub mod recording;
pub mod replay;
pub mod server;
pub mod settings;
pub mod store;
pub mod telemetry;
