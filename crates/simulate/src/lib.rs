//! A discrete-event simulator of whole fleets, on virtual time and deterministic by its seed.
//!
//! The coordinator in it is `holdoff-decision` itself, never a copy of a rule. It reads no clock,
//! no file and no environment: scenarios and policies come in as values, results go out as
//! values. Reading YAML and printing are the command line's.

#![forbid(unsafe_code)]

mod assertions;
mod dependency;
mod measure;
mod operation;
pub mod plot;
pub mod published;
mod queue;
mod random;
pub mod reference;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod strategy;
mod timeline;
mod world;

pub use results::Results;
pub use run::{Progress, run};
pub use scenario::Scenario;
pub use strategy::Strategy;
