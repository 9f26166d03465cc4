//! Every test of the service as a whole, in one binary: over real sockets, with virtual time
//! wherever time matters.

mod acquire;
mod admission;
mod bad_input;
mod book;
mod candidates;
mod collector;
mod concurrency;
mod contract;
mod dashboard;
mod demo;
mod envoy;
mod fleet;
mod granting;
mod harness;
mod json;
mod killed;
mod names;
mod operators;
mod overrides;
mod policy_check;
mod probes;
mod process;
mod recording;
mod returning;
mod secure;
mod served_store;
mod service_manager;
mod sessions;
mod shared_store;
mod store_contract;
mod stores;
mod tallies;
mod telemetry;
mod tidy;
mod verdicts;
