//! Every test of the service as a whole, in one binary: over real sockets, with virtual time
//! wherever time matters.

mod acquire;
mod bad_input;
mod contract;
mod harness;
mod names;
mod overrides;
mod probes;
mod returning;
