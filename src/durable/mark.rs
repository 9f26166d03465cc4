//! A witness beside the database: the boot epoch and the number of the newest acknowledged write.
//!
//! redb falls back to the write before the newest where the newest is unreadable. That is right
//! after a power loss, when the newest was never acknowledged, and wrong after damage, and the
//! file alone cannot tell. The witness can. It is written after each write and before its answer,
//! but not synced: it outlives a kill at once and a power loss mostly, and an old witness
//! complains about nothing. It also keeps the boot epoch rising where the database is lost or an
//! old copy is put in its place.

use std::{
    fs::{self, File},
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{directory::private, encoding};

/// Past any length the sealed text can have; blanks fill the rest.
const LENGTH: usize = 96;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub boot: u64,
    /// Numbers the transactions of a file, from 1.
    pub write: u64,
}

/// The witness's file.
#[derive(Debug)]
pub(super) struct Witness {
    file: File,
}

impl Witness {
    /// What was witnessed last; `None` where nothing was, or nothing that can be read.
    pub fn read(path: &Path) -> Option<Mark> {
        let bytes = fs::read(path).ok()?;
        encoding::unseal("mark", &[], bytes.trim_ascii_end()).ok()
    }

    /// # Errors
    /// Where it cannot be written. At a start that is one more reason not to trust the disk.
    pub fn create(path: &Path, mark: Mark) -> io::Result<Self> {
        let mut witness = Self {
            file: private(path)?,
        };
        witness.write(mark)?;
        witness.file.sync_all()?;
        Ok(witness)
    }

    /// # Errors
    /// Where it cannot be written, which makes it an old witness and nothing worse.
    pub fn write(&mut self, mark: Mark) -> io::Result<()> {
        let mut text = encoding::seal("mark", &[], &mark)?;
        text.resize(LENGTH.max(text.len()), b' ');
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&text)
    }
}
