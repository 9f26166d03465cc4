//! What outlives the process: the boot epoch, overrides, breaker checkpoints, policies put over
//! the API, and the audit log, in one redb file in the data directory.
//!
//! Purely storage. It knows no rule, reads no clock and draws no random number: every time that is
//! written comes from the caller. An acknowledgement is given after the sync, never before.
//!
//! redb rather than a snapshot and a journal of our own: torn writes, recovery and checksums of
//! pages are its job, and our state is small. What is ours is above it: a checksum of each value,
//! the order of commits and checkpoints, and what happens when the disk fails (`writer`).
//!
//! | part | is |
//! |---|---|
//! | `record`, `audit` | the values, and the chain of audit records |
//! | `encoding` | a value as bytes |
//! | `directory`, `disk`, `datafile` | the directory, the file, its tables |
//! | `mark` | the witness that tells a damaged file from a torn write |
//! | `boot`, `batch`, `log` | the transactions: start, write, read the audit log |
//! | `queue`, `writer` | what waits, and the thread that writes it |
//! | `memory` | the twin without a directory |

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, SystemTime},
};

use tokio::sync::oneshot;

pub use self::{
    audit::{AuditEntry, AuditHead, AuditLink, AuditRecord, AuditVerdict, ChainBreak, ChainHash},
    boot::{EPOCHS_OF_A_RUN, Restored, Start},
    directory::OpenError,
    record::{
        BreakerCheckpoint, BreakerPhase, Change, Health, Key, LastWrite, Override, OverrideKind,
        PermitKey, StoredPolicy, TimeLeft,
    },
};
use self::{
    datafile::{DataFile, Fault, guarded},
    directory::Directory,
    disk::DiskHealth,
    memory::Memory,
    queue::Stop,
    writer::{Shared, Writer},
};

mod audit;
mod batch;
mod boot;
mod datafile;
mod directory;
mod disk;
mod encoding;
mod log;
mod mark;
mod memory;
mod queue;
mod record;
#[cfg(test)]
mod tests;
mod writer;

/// How long the disk is left alone after a failure.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Why something was not made durable, or not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurableError {
    #[error("the data directory cannot be written at the moment: {cause}")]
    Unavailable { cause: Arc<str> },
    #[error("{waiting} changes are waiting for the disk already")]
    Busy { waiting: usize },
    #[error("the audit log cannot be read: {what}")]
    Unreadable { what: String },
    #[error("the service is stopping")]
    Closed,
}

/// A data directory that was just opened, and what was in it.
#[derive(Debug)]
pub struct Opened {
    pub durable: Durable,
    pub state: Restored,
}

/// The open data directory, or its twin in memory.
#[derive(Debug)]
pub struct Durable {
    store: Store,
}

#[derive(Debug)]
enum Store {
    Directory {
        shared: Arc<Shared>,
        thread: Mutex<Option<JoinHandle<()>>>,
    },
    Memory(Memory),
}

impl Durable {
    /// Opens a data directory, which is created where it does not exist. The boot epoch has risen
    /// durably when this returns. Blocks on the disk: call it before the service starts.
    ///
    /// # Errors
    /// As [`OpenError`] says; its text tells the operator what to do.
    pub fn open(path: &Path, start: Start) -> Result<Opened, OpenError> {
        Self::open_watched(path, start, Arc::default(), RETRY_EVERY)
    }

    fn open_watched(
        path: &Path,
        start: Start,
        health: Arc<DiskHealth>,
        retry: Duration,
    ) -> Result<Opened, OpenError> {
        let directory = Directory::claim(path)?;
        let (writer, state) = Writer::open(directory, health, retry, start)?;
        let shared = writer.shared();
        let thread = std::thread::Builder::new()
            .name("durable-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|cause| directory::refused(path, cause))?;
        let thread = Mutex::new(Some(thread));
        let store = Store::Directory { shared, thread };
        let durable = Self { store };
        Ok(Opened { durable, state })
    }

    /// No data directory: commits succeed at once and last as long as the process; of the audit
    /// log the newest 10,000 records are kept.
    pub fn in_memory(start: Start) -> Opened {
        let (memory, state) = Memory::start(start);
        let store = Store::Memory(memory);
        let durable = Self { store };
        Opened { durable, state }
    }

    /// Writes an operator's change and its audit record, both or neither. `Ok` means on disk.
    /// Dropping the future does not take the change back.
    ///
    /// # Errors
    /// Nothing was changed, and nothing will be: see [`DurableError`]. (One exception is nobody's
    /// to mend: a process that dies after the disk failed and before it works again may find at
    /// its next start a change that was refused, with its audit record.)
    pub async fn commit(
        &self,
        change: Change,
        entry: AuditEntry,
    ) -> Result<AuditRecord, DurableError> {
        match &self.store {
            Store::Directory { shared, .. } => answered(shared.queue.commit(change, entry)?).await,
            Store::Memory(memory) => Ok(memory.commit(&entry)),
        }
    }

    /// Hands over the state of a breaker after a transition, or after a hold has begun or ended. Never waits for the disk; of one
    /// dependency only the newest waits. Call it where the record is still held, so that the calls
    /// of one dependency come in the order of its epochs.
    pub fn checkpoint(&self, dependency: Key, checkpoint: BreakerCheckpoint) {
        match &self.store {
            Store::Directory { shared, .. } => shared.queue.checkpoint(dependency, checkpoint),
            Store::Memory(_) => {}
        }
    }

    /// Resolves when everything handed over before this call is on disk.
    ///
    /// # Errors
    /// [`DurableError::Unavailable`], at once, while the disk is in trouble. Checkpoints are kept
    /// and written when it works again.
    pub async fn flushed(&self) -> Result<(), DurableError> {
        match &self.store {
            Store::Directory { shared, .. } => match shared.queue.flush()? {
                Some(answer) => answered(answer).await,
                None => Ok(()),
            },
            Store::Memory(_) => Ok(()),
        }
    }

    /// Whether the disk is in trouble: commits are refused, checkpoints wait.
    pub fn degraded(&self) -> bool {
        match &self.store {
            Store::Directory { shared, .. } => shared.queue.degraded(),
            Store::Memory(_) => false,
        }
    }

    /// Audit records of a namespace (of all, where absent) after a sequence, oldest first.
    ///
    /// # Errors
    /// [`DurableError::Unavailable`] while the disk is in trouble, [`DurableError::Unreadable`]
    /// where a record is damaged.
    pub async fn audit_page(
        &self,
        namespace: Option<&str>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditLink>, DurableError> {
        match &self.store {
            Store::Directory { shared, .. } => {
                let namespace = namespace.map(str::to_owned);
                read(shared, move |transaction| {
                    log::page(transaction, namespace.as_deref(), after, limit)
                })
                .await
            }
            Store::Memory(memory) => Ok(memory.page(namespace, after, limit)),
        }
    }

    /// Walks the whole audit log and says where its chain breaks, if it does; the records of
    /// `namespace` are counted besides.
    ///
    /// # Errors
    /// As for [`Self::audit_page`]; a broken chain is an answer, not an error.
    pub async fn audit_verify(&self, namespace: &str) -> Result<AuditVerdict, DurableError> {
        match &self.store {
            Store::Directory { shared, .. } => {
                let namespace = namespace.to_owned();
                read(shared, move |transaction| {
                    log::verify(transaction, &namespace)
                })
                .await
            }
            Store::Memory(memory) => Ok(memory.verify(namespace)),
        }
    }

    /// An orderly stop: the last write, then the directory is free for another process. Later
    /// commits are [`DurableError::Closed`]; closing again does nothing.
    ///
    /// # Errors
    /// Where what waited could not be written.
    pub async fn close(&self, wall_now: SystemTime) -> Result<(), DurableError> {
        match &self.store {
            Store::Directory { shared, .. } => {
                let (answer, answered) = oneshot::channel();
                let answer = Some(answer);
                let at = Some(wall_now);
                shared.queue.stop(Stop { at, answer });
                answered.await.unwrap_or(Ok(()))
            }
            Store::Memory(_) => Ok(()),
        }
    }
}

/// Without [`Durable::close`]: what waits is still written, but the stop does not count as clean.
impl Drop for Durable {
    fn drop(&mut self) {
        if let Store::Directory { shared, thread } = &mut self.store {
            shared.queue.stop(Stop::default());
            let thread = thread.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

async fn answered<T>(
    answer: oneshot::Receiver<Result<T, DurableError>>,
) -> Result<T, DurableError> {
    answer.await.unwrap_or(Err(DurableError::Closed))
}

/// Reads in a transaction of its own, away from the runtime's workers.
async fn read<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&redb::ReadTransaction) -> Result<T, Fault> + Send + 'static,
) -> Result<T, DurableError> {
    if let Some(cause) = shared.queue.trouble() {
        return Err(DurableError::Unavailable { cause });
    }
    let shared = shared.clone();
    let done =
        tokio::task::spawn_blocking(move || guarded(|| work(&shared.with_file(DataFile::read)?)));
    match done.await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Fault::NotOpen)) => Err(DurableError::Closed),
        Ok(Err(fault)) => Err(DurableError::Unreadable {
            what: fault.to_string(),
        }),
        Err(_) => Err(DurableError::Closed),
    }
}
