//! What happened, written down: questions with what they were answered, reports, tallies and
//! orders, with their times and draws, so that another policy can be tried on them later.
//!
//! Opt-in, and off the decision's path: a decision hands what happened to a bounded channel and
//! goes on; where the disk is slower than the fleet, what does not fit is left out, counted, and
//! the gap is marked in the file. Nothing here is needed for a decision, so nothing here is
//! waited for or synced: a killed process loses a quarter of a second, a machine that loses its
//! power may lose more.
//!
//! - [`format`]: frames and their messages
//! - `told`: between those and what the judge of a candidate reads
//! - `files`: names, rotation, what is the oldest
//! - [`writer`]: the thread that writes; [`reader`]: reads it back, as far as it is whole
//!
//! Callers' instances and services are in it as keyed hashes alone, call ids too; the names of
//! dependencies are not hashed. The key stays in the data directory.

pub(crate) mod files;
pub mod format;
pub mod reader;
mod told;
pub mod writer;

pub use reader::{Damage, Entry, Reader, RecordingError};
pub use writer::{Noted, Recorder};

/// Where and how much is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingSettings {
    pub folder: std::path::PathBuf,
    /// Of all files together; at least [`FILE_MIN`] for each.
    pub max_bytes: u64,
    /// At least 2: one that is written and one to read.
    pub files: u32,
}

/// A smaller file would mostly hold policies.
pub const FILE_MIN: u64 = 64 * 1024;

impl RecordingSettings {
    /// After so many bytes a file is full.
    pub fn file_bytes(&self) -> u64 {
        (self.max_bytes / u64::from(self.files.max(1))).max(FILE_MIN)
    }
}
