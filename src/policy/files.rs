//! Reads policy files: one file, or the files of a folder.
//!
//! Of a folder `*.yaml`, `*.yml` and `*.json` count, in the order of their names; hidden
//! ones and folders inside do not. Links to files are followed, so a mounted ConfigMap is
//! read as what it shows and not also as the `..data` behind it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::set::Source;
use super::tree::MAX_BYTES;

/// Files of a folder; more are refused.
const MAX_FILES: usize = 10_000;
/// A folder may be swapped while it is read.
const TRIES: usize = 3;

/// Reads the file at `path`, or the policy files of the folder there.
///
/// # Errors
/// What cannot be read, or is no UTF-8; a folder without policy files.
pub fn read(path: &Path) -> Result<Vec<Source>, Vec<Finding>> {
    let mut last = read_once(path);
    for _ in 1..TRIES {
        match last {
            Err(Unreadable { vanished: true, .. }) => last = read_once(path),
            Ok(_) | Err(_) => break,
        }
    }
    last.map_err(|unreadable| unreadable.findings)
}

struct Unreadable {
    findings: Vec<Finding>,
    /// A file that had just been listed was gone.
    vanished: bool,
}

fn read_once(path: &Path) -> Result<Vec<Source>, Unreadable> {
    let paths = list(path).map_err(|message| Unreadable {
        findings: vec![Finding::of_file(&shown(path), message)],
        vanished: false,
    })?;
    let mut sources = Vec::with_capacity(paths.len());
    let mut bad = Unreadable {
        findings: Vec::new(),
        vanished: false,
    };
    for path in paths {
        match text(&path) {
            Ok(text) => sources.push(Source {
                name: shown(&path),
                text,
            }),
            Err(error) => {
                bad.vanished |= error.kind() == io::ErrorKind::NotFound;
                bad.findings.push(Finding::of_file(
                    &shown(&path),
                    format!("cannot be read: {error}"),
                ));
            }
        }
    }
    if bad.findings.is_empty() {
        Ok(sources)
    } else {
        Err(bad)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn list(path: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if is_policy_file(&path) {
            paths.push(path);
        }
    }
    match paths.len() {
        0 => Err("a folder without policy files (*.yaml, *.yml, *.json)".into()),
        1..=MAX_FILES => {
            paths.sort_unstable();
            Ok(paths)
        }
        files => Err(format!("{files} policy files; at most {MAX_FILES}")),
    }
}

fn is_policy_file(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let named = path
        .extension()
        .is_some_and(|ext| ["yaml", "yml", "json"].iter().any(|known| ext == *known));
    !hidden && named && !path.is_dir()
}

fn text(path: &Path) -> io::Result<String> {
    // A pipe would wait for its writer, so what is no file is not opened.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return Err(io::Error::other(format!("larger than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..good]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count();
        io::Error::other(format!("not UTF-8 in line {line}"))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn names(path: &Path) -> Vec<String> {
        let short = |source: Source| {
            Path::new(&source.name)
                .file_name()
                .unwrap()
                .display()
                .to_string()
        };
        read(path).unwrap().into_iter().map(short).collect()
    }

    fn refused(path: &Path) -> String {
        read(path).unwrap_err()[0].to_string()
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_names_and_hidden_files_are_not() {
        let folder = folder(&[
            ("b.yml", b"b"),
            ("a.yaml", b"a"),
            ("c.json", b"c"),
            (".d.yaml", b"d"),
            ("notes.txt", b""),
            ("a.yaml~", b""),
        ]);
        fs::create_dir(folder.path().join("sub.yaml")).unwrap();
        assert_eq!(names(folder.path()), ["a.yaml", "b.yml", "c.json"]);
        assert_eq!(names(&folder.path().join("a.yaml")), ["a.yaml"]);
    }

    #[test]
    fn a_mounted_config_map_is_read_once_and_through_its_links() {
        let folder = folder(&[]);
        let data = folder.path().join("..2024_01");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("p.yaml"), "version: 1\n").unwrap();
        symlink("..2024_01", folder.path().join("..data")).unwrap();
        symlink("..data/p.yaml", folder.path().join("p.yaml")).unwrap();
        assert_eq!(names(folder.path()), ["p.yaml"]);
        assert_eq!(read(folder.path()).unwrap()[0].text, "version: 1\n");
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_path_and_why() {
        let folder = folder(&[("bad.yaml", b"version: 1\n\xff\n")]);
        assert!(refused(folder.path()).ends_with("bad.yaml: cannot be read: not UTF-8 in line 2"));
        let missing = folder.path().join("missing.yaml");
        assert!(refused(&missing).contains("missing.yaml: cannot be read: No such file"));
        symlink("nowhere", folder.path().join("bad.yaml.yaml")).unwrap();
        assert_eq!(read(folder.path()).unwrap_err().len(), 2);
    }

    #[test]
    fn a_folder_without_policy_files_is_refused() {
        let folder = folder(&[("notes.txt", b"")]);
        assert!(
            refused(folder.path())
                .ends_with(": a folder without policy files (*.yaml, *.yml, *.json)")
        );
    }

    #[test]
    fn a_huge_file_is_refused_before_it_is_kept() {
        let folder = folder(&[("huge.yaml", &vec![b' '; MAX_BYTES + 1])]);
        assert!(refused(folder.path()).ends_with("cannot be read: larger than 4194304 bytes"));
    }
}
