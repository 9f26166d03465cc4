//! The laws of the judge, on virtual time.

mod laws;
mod story;
