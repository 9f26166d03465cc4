//! The laws of the judge, on virtual time.

mod laws;
pub(crate) mod story;
