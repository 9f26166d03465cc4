//! The file under redb, watched: it remembers that a sync failed, and tests make it fail.
//!
//! redb's own error does not say which operation failed. It matters: after a failed sync the
//! kernel may show data that is not on the disk and never will be, so the file must be replaced.

use std::{
    fs::File,
    io,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{BackendError, StorageBackend, backends::FileBackend};

/// Shared by every handle that is opened on the file, one after the other.
#[derive(Debug, Default)]
pub(super) struct DiskHealth {
    sync_failed: AtomicBool,
    #[cfg(test)]
    pub faults: super::tests::Faults,
}

impl DiskHealth {
    pub fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }

    pub fn replaced(&self) {
        self.sync_failed.store(false, Ordering::Release);
    }

    #[cfg(test)]
    fn before(&self, operation: super::tests::Operation) -> io::Result<()> {
        self.faults.before(operation)
    }
}

#[derive(Debug)]
pub(super) struct Disk {
    file: FileBackend,
    health: Arc<DiskHealth>,
}

impl Disk {
    pub fn new(file: File, health: Arc<DiskHealth>) -> Result<Self, redb::DatabaseError> {
        let file = FileBackend::new(file)?;
        Ok(Self { file, health })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        #[cfg(test)]
        self.health.before(super::tests::Operation::Grow)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        #[cfg(test)]
        let injected = self.health.before(super::tests::Operation::Sync);
        #[cfg(not(test))]
        let injected = Ok(());
        let synced = injected.and_then(|()| self.file.sync_data());
        if synced.is_err() {
            self.health.sync_failed.store(true, Ordering::Release);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        self.health.before(super::tests::Operation::Write)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
