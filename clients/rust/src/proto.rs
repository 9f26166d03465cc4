//! The wire contract, generated from `proto/holdoff/v1`. Nothing here is written by hand.

#![allow(clippy::all, missing_docs)]

tonic::include_proto!("holdoff.v1");
