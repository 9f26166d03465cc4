//! Tells when policy files, and others that are watched the same way, have changed, with their
//! new text.
//!
//! An event only means "look again": what is compared is the text. So a touched file, an
//! atomic rename, an editor's save in three steps and a swapped `..data` folder are all the
//! same case, and nothing is reloaded that did not change. Where a filesystem has no events
//! (network mounts), a look every five seconds finds the change.
//!
//! Reading a file is itself an event (an access); those are dropped, or each reload would
//! cause the next.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::files;
use super::finding::Finding;
use super::set::Source;

/// What was read: the text of the files, or why they could not be read.
pub type Reading = Result<Vec<Source>, Vec<Finding>>;

/// Without an event, a look is taken this often.
const POLL: Duration = Duration::from_secs(5);
/// Events come in bursts; a look is taken when so long none has come.
const QUIET: Duration = Duration::from_millis(100);
/// A folder that is never quiet is looked at nevertheless.
const LONGEST_BURST: Duration = Duration::from_secs(1);

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Watch {
    stop: Sender<Signal>,
}

enum Signal {
    LookAgain,
    Stop,
}

/// Calls `on_change` with every reading of `path` that differs from `known`, from a thread
/// of its own. After [`Watch`] is dropped at most a call that already began is finished.
///
/// # Errors
/// The thread cannot be started. That there are no events on this system is no error.
pub fn watch(
    path: &Path,
    known: Reading,
    on_change: impl FnMut(Reading) + Send + 'static,
) -> std::io::Result<Watch> {
    let paths = vec![path.to_owned()];
    let path = path.to_owned();
    watch_with(
        "policy-watch",
        paths,
        move || files::read(&path),
        known,
        on_change,
    )
}

/// The same for other files: whatever `read` makes of those at `paths`, where it differs.
///
/// # Errors
/// As [`watch`].
pub fn watch_with<R: Clone + PartialEq + Send + 'static>(
    name: &str,
    paths: Vec<PathBuf>,
    read: impl Fn() -> R + Send + 'static,
    known: R,
    on_change: impl FnMut(R) + Send + 'static,
) -> std::io::Result<Watch> {
    let (stop, signals) = mpsc::channel();
    let events = stop.clone();
    let mut watcher = Follower {
        watched: Watched { read, known },
        folders: Folders::new(paths, events),
        on_change,
    };
    thread::Builder::new()
        .name(name.into())
        .spawn(move || watcher.run(&signals))?;
    Ok(Watch { stop })
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A thread that ended already needs no telling.
        let _ = self.stop.send(Signal::Stop);
    }
}

/// The question "has it changed?", without threads, events or time.
#[derive(Debug)]
struct Watched<Read, R> {
    read: Read,
    known: R,
}

impl<Read: Fn() -> R, R: Clone + PartialEq> Watched<Read, R> {
    /// What is there now, where that differs from the last time.
    fn look(&mut self) -> Option<R> {
        let now = (self.read)();
        if now == self.known {
            return None;
        }
        self.known.clone_from(&now);
        Some(now)
    }
}

struct Follower<Read, R, F> {
    watched: Watched<Read, R>,
    folders: Folders,
    on_change: F,
}

impl<Read: Fn() -> R, R: Clone + PartialEq, F: FnMut(R)> Follower<Read, R, F> {
    fn run(&mut self, signals: &Receiver<Signal>) {
        loop {
            // First watch, then look: what changes in between is not lost.
            self.folders.renew();
            if let Some(reading) = self.watched.look() {
                (self.on_change)(reading);
            }
            match signals.recv_timeout(POLL) {
                Ok(Signal::LookAgain) => {
                    if burst_ended_by_stop(signals) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// Waits until a burst of events is over; true where that was the end of all.
fn burst_ended_by_stop(signals: &Receiver<Signal>) -> bool {
    let began = Instant::now();
    while began.elapsed() < LONGEST_BURST {
        match signals.recv_timeout(QUIET) {
            Ok(Signal::LookAgain) => {}
            Err(RecvTimeoutError::Timeout) => return false,
            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
    false
}

/// The folders whose events matter.
struct Folders {
    paths: Vec<PathBuf>,
    events: Sender<Signal>,
    /// `None` where the system has no events to give.
    watcher: Option<RecommendedWatcher>,
    watching: BTreeSet<(PathBuf, Identity)>,
}

impl Folders {
    fn new(paths: Vec<PathBuf>, events: Sender<Signal>) -> Self {
        Self {
            paths,
            events,
            watcher: None,
            watching: BTreeSet::new(),
        }
    }

    /// Watches anew where a folder was replaced, which its old watch does not tell.
    fn renew(&mut self) {
        let wanted: BTreeSet<_> = self
            .paths
            .iter()
            .flat_map(|path| folders_of(path))
            .collect();
        if self.watcher.is_some() && self.watching == wanted {
            return;
        }
        let events = self.events.clone();
        let look_again = move |event: notify::Result<Event>| {
            if matters(&event) {
                let _ = events.send(Signal::LookAgain);
            }
        };
        self.watching.clear();
        self.watcher = notify::recommended_watcher(look_again).ok();
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        for folder in wanted {
            if watcher
                .watch(&folder.0, RecursiveMode::NonRecursive)
                .is_ok()
            {
                self.watching.insert(folder);
            }
        }
    }
}

/// Whether the text may have changed. An error may mean that events were lost.
fn matters(event: &notify::Result<Event>) -> bool {
    match event {
        Ok(event) => !event.kind.is_access(),
        Err(_) => true,
    }
}

/// Where something happens when the text at `path` changes: the folder that holds it, the
/// folder that it is, and the same for what the links on the way point to.
fn folders_of(path: &Path) -> BTreeSet<(PathBuf, Identity)> {
    let real = path.canonicalize().ok();
    let paths = [Some(path), real.as_deref()].into_iter().flatten();
    let folders = paths.flat_map(|path| {
        let parent = path
            .parent()
            .map(|parent| match parent.as_os_str().is_empty() {
                true => Path::new("."),
                false => parent,
            });
        [path.is_dir().then_some(path), parent]
            .into_iter()
            .flatten()
    });
    folders
        .map(|folder| (folder.to_owned(), identity(folder)))
        .collect()
}

/// Tells a folder from another one that took its name.
type Identity = Option<(u64, u64)>;

#[cfg(unix)]
fn identity(folder: &Path) -> Identity {
    use std::os::unix::fs::MetadataExt;
    let metadata = folder.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// The regular look has to do where folders have no number.
#[cfg(not(unix))]
fn identity(_: &Path) -> Identity {
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn texts(reading: Reading) -> Vec<String> {
        reading
            .unwrap()
            .into_iter()
            .map(|source| source.text)
            .collect()
    }

    fn watched(path: &Path) -> Watched<impl Fn() -> Reading, Reading> {
        let path = path.to_owned();
        let read = move || files::read(&path);
        Watched {
            known: read(),
            read,
        }
    }

    #[test]
    fn a_file_that_was_only_touched_has_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.yaml");
        fs::write(&path, "a").unwrap();
        let mut watched = watched(&path);
        fs::write(&path, "a").unwrap();
        assert!(watched.look().is_none());
        fs::write(&path, "b").unwrap();
        assert_eq!(texts(watched.look().unwrap()), ["b"]);
        assert!(watched.look().is_none());
    }

    #[test]
    fn an_atomic_rename_and_a_removal_are_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.yaml");
        fs::write(&path, "a").unwrap();
        let mut watched = watched(&path);
        fs::write(folder.path().join("p.yaml.new"), "b").unwrap();
        fs::rename(folder.path().join("p.yaml.new"), &path).unwrap();
        assert_eq!(texts(watched.look().unwrap()), ["b"]);
        fs::remove_file(&path).unwrap();
        assert!(watched.look().unwrap().is_err());
        assert!(watched.look().is_none());
    }

    fn swap_data(folder: &Path, version: &str) {
        let data = folder.join(format!("..{version}"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("p.yaml"), version).unwrap();
        symlink(format!("..{version}"), folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    }

    #[test]
    fn a_swapped_data_folder_is_one_change() {
        let folder = tempfile::tempdir().unwrap();
        swap_data(folder.path(), "one");
        symlink("..data/p.yaml", folder.path().join("p.yaml")).unwrap();
        let mut watched = watched(folder.path());
        swap_data(folder.path(), "two");
        assert_eq!(texts(watched.look().unwrap()), ["two"]);
        assert!(watched.look().is_none());
    }

    #[test]
    fn reading_a_file_does_not_cause_the_next_look() {
        use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
        let event = |kind| Ok(Event::new(kind));
        assert!(!matters(&event(EventKind::Access(AccessKind::Open(
            AccessMode::Read
        )))));
        assert!(!matters(&event(EventKind::Access(AccessKind::Close(
            AccessMode::Read
        )))));
        assert!(matters(&event(EventKind::Modify(ModifyKind::Any))));
        assert!(matters(&Err(notify::Error::generic("overflow"))));
    }

    /// Real events of a real filesystem: the waiting is bounded, and below the poll.
    #[test]
    fn a_real_change_is_told_by_an_event_and_once_and_also_in_a_folder_that_replaced_another() {
        const SOON: Duration = Duration::from_secs(4);
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("policies");
        fs::create_dir(&folder).unwrap();
        swap_data(&folder, "one");
        symlink("..data/p.yaml", folder.join("p.yaml")).unwrap();
        let (told, changes) = mpsc::channel();
        let watch = watch(&folder, Ok(Vec::new()), move |reading| {
            drop(told.send(reading))
        })
        .unwrap();
        let await_text = |text: &str| loop {
            // Between two renames there may be nothing to read.
            let Ok(sources) = changes.recv_timeout(SOON).unwrap() else {
                continue;
            };
            assert_eq!(texts(Ok(sources)), [text]);
            break;
        };
        // The first look differs from the empty list; after it the watch stands.
        await_text("one");
        swap_data(&folder, "two");
        await_text("two");
        // Reading it was an access; that causes nothing.
        assert!(changes.recv_timeout(Duration::from_millis(500)).is_err());
        let next = root.path().join("next");
        fs::create_dir(&next).unwrap();
        fs::write(next.join("p.yaml"), "three").unwrap();
        fs::rename(&folder, root.path().join("former")).unwrap();
        fs::rename(&next, &folder).unwrap();
        await_text("three");
        fs::write(folder.join("q.yaml.tmp"), "four").unwrap();
        fs::rename(folder.join("q.yaml.tmp"), folder.join("p.yaml")).unwrap();
        await_text("four");
        drop(watch);
        assert_eq!(
            changes.recv_timeout(SOON),
            Err(RecvTimeoutError::Disconnected)
        );
    }
}
