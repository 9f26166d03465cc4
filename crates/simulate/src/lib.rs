//! A discrete-event simulator of whole fleets, on virtual time and deterministic by its seed.
//!
//! The coordinator in it is `holdoff-decision` itself, never a copy of a rule. It reads no clock,
//! no file and no environment: scenarios and policies come in as values, results go out as
//! values. Reading YAML and printing are the command line's.

#![forbid(unsafe_code)]

pub mod plot;
pub mod published;
pub mod report;
pub mod results;
pub mod scenario;
pub mod strategy;

pub use results::Results;
pub use scenario::Scenario;
pub use strategy::Strategy;
