//! The wire contract, generated from `proto/holdoff/v1`, and its mapping to JSON, which is read
//! off the descriptors; and Envoy's rate-limit protocol, from `proto/envoy-ratelimit`. No message
//! is written by hand.

pub mod json;

pub use generated::*;

#[allow(clippy::all, missing_docs)]
mod generated {
    tonic::include_proto!("holdoff.v1");
}

/// What Envoy asks a rate-limit service, and what its messages are made of.
#[allow(clippy::all, missing_docs)]
pub mod ratelimit {
    include!(concat!(env!("OUT_DIR"), "/envoy_ratelimit.rs"));
}

/// The compiled descriptors of the contract, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Those of Envoy's protocol.
pub const ENVOY_DESCRIPTORS: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/envoy_descriptors.bin"));
