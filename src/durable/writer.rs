//! The one thread that writes. Each time it wakes it takes all that waits and writes it as one
//! transaction with one sync (group commit): a hundred trips in the same instant cost one sync.
//!
//! A thread, not a task: a sync blocks for as long as the disk likes, and no runtime's worker may.
//!
//! When a write fails, the handle is not used again. Whoever waited is told; checkpoints are kept.
//! About once a second the file is opened anew; had the failed write reached the disk after all,
//! it is taken back; and where it was a sync that failed, the file is replaced by a copy, because
//! the kernel may show, from its cache, data that the disk does not have.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use super::{
    DurableError,
    audit::AuditHead,
    batch::{self, Batch, Undo},
    boot::{self, Restored, Start},
    datafile::{DataFile, Fault, guarded},
    directory::{Directory, OpenError, refused},
    disk::DiskHealth,
    mark::{Mark, Witness},
    queue::{Queue, Stop, Taken},
};

/// What the writer and the callers share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub queue: Queue,
    /// Absent while the disk is in trouble. Held for reading only as long as a transaction begins
    /// or is written, for writing only to put in another.
    pub file: RwLock<Option<DataFile>>,
}

impl Shared {
    pub fn replace_file(&self, file: Option<DataFile>) {
        let mut place = self.file.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, file);
        // redb's last act on a handle it has given up may fail in any way; nothing depends on it.
        let _ = guarded(|| {
            drop(before);
            Ok(())
        });
    }

    pub fn with_file<T>(
        &self,
        work: impl FnOnce(&DataFile) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let place = self.file.read().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().ok_or(Fault::NotOpen).and_then(work)
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    directory: Directory,
    health: Arc<DiskHealth>,
    retry: Duration,
    witness: Witness,
    /// The newest acknowledged write.
    mark: Mark,
    /// The end of the audit log as acknowledged.
    head: AuditHead,
    undo: Vec<Undo>,
}

impl Writer {
    /// Opens or creates the database of a directory and starts the run.
    ///
    /// # Errors
    /// As [`OpenError`] says.
    pub fn open(
        directory: Directory,
        health: Arc<DiskHealth>,
        retry: Duration,
        start: Start,
    ) -> Result<(Self, Restored), OpenError> {
        let path = directory.database();
        let opened = match path.try_exists() {
            Ok(true) => DataFile::open(&path, health.clone()),
            Ok(false) => create(&directory, &health, start),
            Err(cause) => Err(cause.into()),
        };
        let witnessed = Witness::read(&directory.mark());
        let booted = opened.and_then(|file| Ok((boot::boot(&file, start, witnessed)?, file)));
        let ((restored, mark), file) = booted.map_err(|fault| fault.at(&path))?;
        let witness = Witness::create(&directory.mark(), mark)
            .map_err(|cause| refused(&directory.mark(), cause))?;
        if restored.rolled_back {
            tracing::error!(
                file = %path.display(),
                "the data file is older than what was last acknowledged: it was damaged, or an \
                 older copy was put in its place; look at overrides, policies and the audit log"
            );
        }
        let shared = Arc::new(Shared::default());
        shared.replace_file(Some(file));
        let head = restored.audit_head;
        let writer = Self {
            shared,
            directory,
            health,
            retry,
            witness,
            mark,
            head,
            undo: Vec::new(),
        };
        Ok((writer, restored))
    }

    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    pub fn run(mut self) {
        let _closed = CloseAtEnd(self.shared.clone());
        loop {
            let mut taken = self.shared.queue.take(self.retry);
            let stop = taken.stop.take();
            let done = self.turn(taken, stop.as_ref());
            if let Some(stop) = stop {
                return self.finish(stop, done);
            }
        }
    }

    fn turn(&mut self, taken: Taken, stop: Option<&Stop>) -> Result<(), DurableError> {
        let in_trouble = self.shared.queue.degraded();
        let stop_at = stop.and_then(|stop| stop.at);
        if !in_trouble && !taken.has_writes() && stop_at.is_none() {
            answer_flushes(taken);
            return Ok(());
        }
        let recovered = if in_trouble { self.recover() } else { Ok(()) };
        let batch = Batch {
            commits: &taken.commits,
            checkpoints: &taken.checkpoints,
            number: self.mark.write.saturating_add(1),
            head: self.head,
            stop: stop_at,
        };
        let undo = &mut self.undo;
        let written =
            recovered.and_then(|()| self.shared.with_file(|file| batch.write(file, undo)));
        match written {
            Ok(records) => {
                self.undo.clear();
                self.mark.write = self.mark.write.saturating_add(1);
                // A witness that cannot be written is an old one, which accuses nobody.
                let _ = self.witness.write(self.mark);
                self.head = records.last().map_or(self.head, |record| record.head());
                if self.shared.queue.recovered() {
                    tracing::info!(
                        "the data directory can be written again; all that waited is on disk"
                    );
                }
                answer(taken, records);
                Ok(())
            }
            Err(fault) => Err(self.failed(taken, &fault)),
        }
    }

    fn failed(&mut self, taken: Taken, fault: &Fault) -> DurableError {
        self.shared.replace_file(None);
        let cause: Arc<str> = fault.to_string().into();
        let error = DurableError::Unavailable {
            cause: cause.clone(),
        };
        // First the state, then the answers: who hears one finds `degraded` to be true.
        if self.shared.queue.failed(taken.checkpoints, cause) {
            tracing::error!(
                file = %self.directory.database().display(),
                cause = %fault,
                "the data directory cannot be written: decisions go on from memory, operators' \
                 changes are refused; free space or mend the disk, it is tried again every second"
            );
        }
        for waiting in taken.commit_answers {
            let _ = waiting.send(Err(error.clone()));
        }
        for waiting in taken.flushes {
            let _ = waiting.send(Err(error.clone()));
        }
        error
    }

    /// Opens the file anew, as acknowledged.
    fn recover(&mut self) -> Result<(), Fault> {
        let mut file = DataFile::open(&self.directory.database(), self.health.clone())?;
        batch::undo(&file, self.mark.write, self.head, &self.undo)?;
        if self.health.sync_failed() {
            file = self.replacement(file)?;
            self.health.replaced();
        }
        self.undo.clear();
        self.shared.replace_file(Some(file));
        Ok(())
    }

    /// A copy of the file, every byte of it written and synced anew, in its place.
    fn replacement(&self, file: DataFile) -> Result<DataFile, Fault> {
        let fresh = DataFile::on(self.directory.create_fresh()?, self.health.clone())?;
        file.copy_to(&fresh)?;
        self.directory.publish_fresh()?;
        Ok(fresh)
    }

    /// Lets go of everything before it answers: who hears the answer may open the directory.
    fn finish(self, stop: Stop, done: Result<(), DurableError>) {
        self.shared.replace_file(None);
        self.shared.queue.closed();
        drop(self);
        if let Some(answer) = stop.answer {
            let _ = answer.send(done);
        }
    }
}

fn create(
    directory: &Directory,
    health: &Arc<DiskHealth>,
    start: Start,
) -> Result<DataFile, Fault> {
    let file = DataFile::on(directory.create_fresh()?, health.clone())?;
    boot::initialize(&file, start)?;
    directory.publish_fresh()?;
    Ok(file)
}

fn answer(taken: Taken, records: Vec<super::audit::AuditRecord>) {
    let Taken {
        commit_answers,
        flushes,
        ..
    } = taken;
    for (waiting, record) in commit_answers.into_iter().zip(records) {
        let _ = waiting.send(Ok(record));
    }
    for waiting in flushes {
        let _ = waiting.send(Ok(()));
    }
}

fn answer_flushes(taken: Taken) {
    answer(taken, Vec::new());
}

/// However the thread ends, nobody waits for it afterwards.
struct CloseAtEnd(Arc<Shared>);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.queue.closed();
    }
}
