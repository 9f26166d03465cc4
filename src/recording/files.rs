//! The files of a recording: `00000001.holdrec` and on, the oldest going first.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const SUFFIX: &str = ".holdrec";

/// One file of a recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Numbered {
    pub number: u64,
    pub path: PathBuf,
}

/// The files of a folder by their numbers. Others are not ours and are left alone.
///
/// # Errors
/// The folder cannot be read.
pub fn all(folder: &Path) -> io::Result<Vec<Numbered>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let stem = path.file_name().and_then(|name| name.to_str());
        let number = stem
            .and_then(|name| name.strip_suffix(SUFFIX))
            .filter(|stem| stem.len() >= 8)
            .and_then(|stem| stem.parse().ok());
        found.extend(number.map(|number| Numbered { number, path }));
    }
    found.sort();
    Ok(found)
}

/// Begins the file after the newest. Only its owner may read it.
///
/// # Errors
/// It cannot be made.
pub fn begin(folder: &Path) -> io::Result<(Numbered, File)> {
    fs::create_dir_all(folder)?;
    let newest = all(folder)?.last().map_or(0, |file| file.number);
    let number = newest + 1;
    let path = folder.join(format!("{number:08}{SUFFIX}"));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    Ok((Numbered { number, path }, file))
}

/// Drops the oldest files until at most `files` are left, of at most `max_bytes` together; the
/// newest stays in any case.
///
/// # Errors
/// One cannot be dropped.
pub fn prune(folder: &Path, files: u32, max_bytes: u64) -> io::Result<()> {
    let mut left: Vec<(Numbered, u64)> = Vec::new();
    for file in all(folder)? {
        let bytes = fs::metadata(&file.path)?.len();
        left.push((file, bytes));
    }
    let mut bytes: u64 = left.iter().map(|(_, bytes)| bytes).sum();
    let mut count = left.len() as u64;
    for (file, size) in &left {
        let fits = count <= u64::from(files) && bytes <= max_bytes;
        if fits || count <= 1 {
            break;
        }
        fs::remove_file(&file.path)?;
        bytes -= size;
        count -= 1;
    }
    Ok(())
}
