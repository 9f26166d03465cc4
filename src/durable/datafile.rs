//! The one redb file: its tables, how it is opened, created and copied.
//!
//! Everything redb does runs inside [`guarded`]: on a file that something else has written to, it
//! may panic, and a damaged file is an error here, never the end of the process.

use std::{
    fs::File,
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    directory::{OpenError, refused},
    disk::{Disk, DiskHealth},
    encoding::{self, Unusable},
    record::Key,
};

pub(super) type Pairs = TableDefinition<'static, (&'static str, &'static str), &'static [u8]>;

pub(super) const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
pub(super) const AUDIT: TableDefinition<u64, &[u8]> = TableDefinition::new("audit");
/// Derived from `AUDIT`, so that a page costs the same however many other namespaces act.
pub(super) const AUDIT_OF: TableDefinition<(&str, u64), ()> = TableDefinition::new("audit_of");

/// redb's cache: far above what the file usually holds, far below its default of 1 GiB.
const CACHE_BYTES: usize = 16 << 20;

/// The tables of one value per (namespace, name).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Overrides,
    Breakers,
    Policies,
    /// Policies that are tried beside the live ones.
    Candidates,
}

impl Kept {
    pub const ALL: [Self; 4] = [
        Self::Overrides,
        Self::Breakers,
        Self::Policies,
        Self::Candidates,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Overrides => "overrides",
            Self::Breakers => "breakers",
            Self::Policies => "policies",
            Self::Candidates => "candidates",
        }
    }

    pub const fn table(self) -> Pairs {
        TableDefinition::new(self.name())
    }
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Redb(Box<redb::Error>),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Unencodable(#[from] serde_json::Error),
    #[error("{0}")]
    Damaged(String),
    #[error("written by a newer version, {0}")]
    Newer(u32),
    #[error("it came back older than what was already acknowledged")]
    Older,
    #[error("it is not open")]
    NotOpen,
}

macro_rules! redb_faults {
    ($($error:ident)*) => {$(
        impl From<redb::$error> for Fault {
            fn from(cause: redb::$error) -> Self {
                Self::Redb(Box::new(cause.into()))
            }
        }
    )*};
}
redb_faults!(DatabaseError TransactionError TableError StorageError CommitError);

impl Fault {
    pub fn damaged(table: &str, key: impl std::fmt::Debug) -> Self {
        Self::Damaged(format!(
            "the entry {key:?} of {table} is not what was written"
        ))
    }

    pub fn at(self, path: &Path) -> OpenError {
        let what = self.to_string();
        let path = path.to_owned();
        match self {
            Self::Io(cause) => refused(&path, cause),
            Self::Newer(found) => OpenError::Newer {
                path,
                found,
                known: encoding::VERSION.into(),
            },
            Self::Redb(cause) => match *cause {
                redb::Error::DatabaseAlreadyOpen => OpenError::Locked { path, holder: None },
                redb::Error::Io(cause) => match cause.kind() {
                    ErrorKind::UnexpectedEof => {
                        let what = "it ends too early".to_owned();
                        OpenError::Damaged { path, what }
                    }
                    ErrorKind::InvalidData => OpenError::Damaged { path, what },
                    _ => refused(&path, cause),
                },
                _ => OpenError::Damaged { path, what },
            },
            Self::Unencodable(_) | Self::Damaged(_) | Self::Older | Self::NotOpen => {
                OpenError::Damaged { path, what }
            }
        }
    }
}

/// Runs what calls redb; a panic of its becomes a fault.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Fault::Damaged(
            said.unwrap_or("its reader gave up").to_owned(),
        ))
    })
}

#[derive(Debug)]
pub(super) struct DataFile {
    database: Database,
}

impl DataFile {
    /// Opens what is at `path`, with a check of every page and the repair of what a crash left.
    ///
    /// # Errors
    /// An empty file is damage: a new one is built elsewhere and renamed into place whole.
    pub fn open(path: &Path, health: Arc<DiskHealth>) -> Result<Self, Fault> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() == 0 {
            return Err(Fault::Damaged("it is empty".to_owned()));
        }
        Self::on(file, health)
    }

    /// On an open file; an empty one becomes a new database.
    pub fn on(file: File, health: Arc<DiskHealth>) -> Result<Self, Fault> {
        guarded(|| {
            let database = Database::builder()
                .set_cache_size(CACHE_BYTES)
                .set_check_integrity_on_open(true)
                .create_with_backend(Disk::new(file, health)?)?;
            Ok(Self { database })
        })
    }

    pub fn read(&self) -> Result<ReadTransaction, Fault> {
        Ok(self.database.begin_read()?)
    }

    /// One transaction; durable when this returns `Ok`.
    pub fn transact<T>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        guarded(|| {
            let transaction = self.database.begin_write()?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })
    }

    /// Copies every entry into `fresh`, in one transaction.
    pub fn copy_to(&self, fresh: &Self) -> Result<(), Fault> {
        let from = self.read()?;
        fresh.transact(|to| {
            copy(&from, to, META)?;
            copy(&from, to, AUDIT)?;
            copy(&from, to, AUDIT_OF)?;
            Kept::ALL
                .iter()
                .try_for_each(|kept| copy(&from, to, kept.table()))
        })
    }
}

fn copy<K: redb::Key + 'static, V: redb::Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<'static, K, V>,
) -> Result<(), Fault> {
    let source = match from.open_table(table) {
        // A file of a version that did not know it, and that was not opened since.
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(()),
        opened => opened?,
    };
    let mut target = to.open_table(table)?;
    for entry in source.iter()? {
        let (key, value) = entry?;
        target.insert(key.value(), value.value())?;
    }
    Ok(())
}

/// Reads one entry of `META`.
pub(super) fn meta<T: DeserializeOwned>(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &str,
) -> Result<Option<T>, Fault> {
    table
        .get(name)?
        .map(|sealed| unseal("meta", &[name.as_bytes()], sealed.value(), name))
        .transpose()
}

/// Writes one entry of `META`.
pub(super) fn set_meta<T: Serialize>(
    transaction: &WriteTransaction,
    name: &str,
    value: &T,
) -> Result<(), Fault> {
    let sealed = encoding::seal("meta", &[name.as_bytes()], value)?;
    transaction
        .open_table(META)?
        .insert(name, sealed.as_slice())?;
    Ok(())
}

pub(super) fn seal<T: Serialize>(kept: Kept, key: &Key, value: &T) -> Result<Vec<u8>, Fault> {
    let parts = [key.namespace.as_bytes(), key.name.as_bytes()];
    Ok(encoding::seal(kept.name(), &parts, value)?)
}

pub(super) fn unseal<T: DeserializeOwned>(
    table: &str,
    key: &[&[u8]],
    sealed: &[u8],
    shown: impl std::fmt::Debug,
) -> Result<T, Fault> {
    encoding::unseal(table, key, sealed).map_err(|cause| match cause {
        Unusable::Damaged => Fault::damaged(table, shown),
        Unusable::Newer(version) => Fault::Newer(version.into()),
    })
}
