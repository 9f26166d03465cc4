//! The wire contract, generated from `proto/holdoff/v1`. Nothing here is written by hand.

#![allow(clippy::all, missing_docs)]

tonic::include_proto!("holdoff.v1");

/// The compiled descriptors of the contract, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
