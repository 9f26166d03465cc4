//! Every test of the service as a whole, in one binary: over real sockets, with virtual time
//! wherever time matters.

mod acquire;
mod bad_input;
mod concurrency;
mod contract;
mod fleet;
mod granting;
mod harness;
mod names;
mod operators;
mod overrides;
mod policy_check;
mod probes;
mod process;
mod returning;
mod sessions;
mod tidy;
