//! The wire contract, generated from `proto/holdoff/v1`, and its mapping to JSON, which is read
//! off the descriptors. No message is written by hand.

pub mod json;

pub use generated::*;

#[allow(clippy::all, missing_docs)]
mod generated {
    tonic::include_proto!("holdoff.v1");
}

/// The compiled descriptors of the contract, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
