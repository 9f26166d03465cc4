//! Holds the clients of all languages to one behaviour: a scripted service plays one side of
//! a scenario, the driver of a client the other, and what came over the wire and what the
//! user saw are compared (`docs/conformance.md`).
//!
//! Lowest layer first:
//!
//! - [`scenario`]: what is in a file, read strictly
//! - [`said`]: what the script says, as messages; [`normal`]: messages in normal form
//! - [`script`]: the service; [`endpoint`]: the sockets in front of it
//! - [`driver`]: a process that answers lines; [`control`]: what it may ask of the server
//! - [`compare`]: differences in words; [`run`]: one scenario
//! - [`request`]: one through the Rust client's middleware
//! - [`fleet`]: clients of all languages at once, against the real service

pub mod compare;
pub mod control;
pub mod driver;
pub mod endpoint;
pub mod fetch;
pub mod fleet;
pub mod normal;
pub mod request;
pub mod run;
pub mod said;
pub mod scenario;
pub mod script;

/// The server's side of the contract.
mod stubs {
    #![allow(clippy::all, missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/holdoff.v1.rs"));
}
