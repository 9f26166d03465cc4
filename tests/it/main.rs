//! Every test of the service as a whole, in one binary: over real sockets, with virtual time
//! wherever time matters.

mod acquire;
mod bad_input;
mod candidates;
mod collector;
mod concurrency;
mod contract;
mod fleet;
mod granting;
mod harness;
mod json;
mod killed;
mod leased_store;
mod names;
mod operators;
mod overrides;
mod policy_check;
mod probes;
mod process;
mod recording;
mod returning;
mod served_store;
mod sessions;
mod shared_store;
mod store_contract;
mod stores;
mod tallies;
mod telemetry;
mod tidy;
mod verdicts;
