//! The data directory: made, locked, and its one file put in place whole.
//!
//! The lock is on a file of its own, not on the database, because the database file may be
//! replaced while we run (see `writer`) and a lock goes with the file, not with its name.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

const DATABASE: &str = "holdoff.redb";
const FRESH: &str = "holdoff.redb.new";
const MARK: &str = "holdoff.mark";
const LOCK: &str = "holdoff.lock";

/// A child that this process is just starting, or a run before that is just ending, may hold the
/// lock for a moment longer.
const LOCK_PATIENCE: [Duration; 10] = [Duration::from_millis(30); 10];

/// Why a data directory cannot be used. Each is a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the data directory {path} is a file, not a directory: name another with --data-dir")]
    NotADirectory { path: PathBuf },
    #[error(
        "the data directory {path} cannot be created ({cause}): create it, or name another with --data-dir"
    )]
    CannotCreate { path: PathBuf, cause: io::Error },
    #[error(
        "{path} may not be read and written by this user: give it to the user that holdoff runs as"
    )]
    NotAllowed { path: PathBuf },
    #[error("the data directory {path} is in use by another holdoff{}: stop that one, or name another with --data-dir", process(*.holder))]
    Locked { path: PathBuf, holder: Option<u32> },
    #[error(
        "{path} was written by a newer holdoff (format {found}, this one knows {known}): start that version, or name another data directory with --data-dir"
    )]
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error(
        "{path} is damaged ({what}): put a backup in its place, or move it away to start without what it held"
    )]
    Damaged { path: PathBuf, what: String },
    #[error(
        "{path} cannot be read and written ({cause}): look at the disk it is on, then start again"
    )]
    Disk { path: PathBuf, cause: String },
}

fn process(holder: Option<u32>) -> String {
    holder
        .map(|pid| format!(" (process {pid})"))
        .unwrap_or_default()
}

/// A directory that this process alone uses, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// # Errors
    /// As [`OpenError`] says.
    pub fn claim(path: &Path) -> Result<Self, OpenError> {
        create(path)?;
        let lock_path = path.join(LOCK);
        let mut lock = private(&lock_path).map_err(|cause| refused(&lock_path, cause))?;
        lock_patiently(&lock, path)?;
        // The number only makes the other one's message better: a full disk is no reason to fail.
        let _ = lock
            .set_len(0)
            .and_then(|()| lock.write_all(std::process::id().to_string().as_bytes()));
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub fn mark(&self) -> PathBuf {
        self.path.join(MARK)
    }

    /// Where a new database is built before it takes the place of the one there is.
    pub fn fresh(&self) -> PathBuf {
        self.path.join(FRESH)
    }

    /// An empty file to build a new database in; what a crash left of an earlier one is gone.
    pub fn create_fresh(&self) -> io::Result<File> {
        match fs::remove_file(self.fresh()) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause),
            Ok(()) | Err(_) => private(&self.fresh()),
        }
    }

    /// Puts the new database in place. After a crash there is the old one or the new one, whole.
    pub fn publish_fresh(&self) -> io::Result<()> {
        fs::rename(self.fresh(), self.database())?;
        sync(&self.path)
    }
}

fn create(path: &Path) -> Result<(), OpenError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => {
            return Err(OpenError::NotADirectory {
                path: path.to_owned(),
            });
        }
        Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(refused(path, cause)),
        Err(_) => {}
    }
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .recursive(true)
        .create(path)
        .map_err(|cause| OpenError::CannotCreate {
            path: path.to_owned(),
            cause,
        })?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            sync(parent).map_err(|cause| refused(parent, cause))
        }
        Some(_) | None => Ok(()),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "runs before the service does, on no runtime's thread"
)]
fn lock_patiently(lock: &File, path: &Path) -> Result<(), OpenError> {
    let mut patience = LOCK_PATIENCE.into_iter();
    loop {
        match (lock.try_lock(), patience.next()) {
            (Ok(()), _) => return Ok(()),
            (Err(TryLockError::WouldBlock), Some(wait)) => std::thread::sleep(wait),
            (Err(TryLockError::WouldBlock), None) => {
                let path = path.to_owned();
                return Err(OpenError::Locked {
                    path,
                    holder: holder(lock),
                });
            }
            (Err(TryLockError::Error(cause)), _) => return Err(refused(path, cause)),
        }
    }
}

fn holder(mut lock: &File) -> Option<u32> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.take(10).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

/// Opens or creates a file that its owner alone may read: policies and reasons are not public.
pub(super) fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Makes the names in a directory durable; the contents of its files are another matter.
fn sync(directory: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

pub(super) fn refused(path: &Path, cause: io::Error) -> OpenError {
    let path = path.to_owned();
    match cause.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            OpenError::NotAllowed { path }
        }
        ErrorKind::NotADirectory => OpenError::NotADirectory { path },
        _ => OpenError::Disk {
            path,
            cause: cause.to_string(),
        },
    }
}
