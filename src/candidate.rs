//! A policy that is tried beside the live one: what it would have done with the same questions,
//! reports and draws, and what became of the calls that the two would have treated differently.
//!
//! Lowest layer first:
//!
//! - [`numbers`]: the difference, counted
//! - `pending`: which verdict of the candidate stands behind a permit of the live policy
//! - [`happening`]: one thing that happened under the live policy
//! - [`judge`], `tallied`: takes happenings into a record of its own, counts the difference
//! - [`shadow`]: a judge beside a live record
//!
//! The judge is used twice: beside each live record while a candidate is tried, and over a
//! recording. It knows no clock, no wire and no file, so both say the same. It never answers
//! anybody, and it applies the very rules: there is no second implementation of them here.

pub mod happening;
pub mod judge;
pub mod numbers;
mod pending;
pub mod shadow;
mod tallied;
#[cfg(test)]
pub(crate) mod tests;

pub use happening::{Before, Happening};
pub use judge::Judge;
pub use numbers::{Numbers, Opening, REASONS};
pub use shadow::{Shadow, Trials};
