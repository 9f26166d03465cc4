//! The rows of one namespace as its pages know them.
//!
//! Each change gets a version. A page says which version it has and gets what is newer, as one
//! frame: for the pages that are up to date that frame is made once and shared, so a hundred of
//! them cost one. A page that was slow, or away, gets the newest of each row that it lacks; how
//! much waits for it does not depend on how long it was away.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::watch;

/// Rows that are listed; of the others only those in trouble, and as many again at most.
pub const LISTED_MAX: usize = 20_000;
/// Rows whose numbers alone have changed, in one frame; the longest unsent ones go first.
pub const NUMBERS_MAX: usize = 2_000;
/// Names that went, so that a page that was away can be told.
const GONE_MAX: usize = 10_000;
/// Events that a page begins with.
const EVENTS_MAX: usize = 50;

/// See the module.
#[derive(Debug)]
pub struct Feed {
    namespace: String,
    /// Versions of another run, or of a feed that has ended since, are not these.
    origin: u64,
    state: Mutex<State>,
    newest: watch::Sender<Frame>,
    pages: AtomicUsize,
    /// Whether the first of it is there; before that a page would be told that nothing is.
    filled: watch::Sender<bool>,
}

/// What leads from one version to the next, as it goes over the wire.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub from: u64,
    pub to: u64,
    pub bytes: Bytes,
}

/// A row as it is to be shown.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: Box<str>,
    pub state: &'static str,
    pub json: String,
}

/// What has changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub lines: Vec<Line>,
    pub gone: Vec<Box<str>>,
    /// As JSON.
    pub events: Vec<String>,
    /// How many dependencies of the namespace there are, where that was counted.
    pub total: Option<usize>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    rows: BTreeMap<Box<str>, Entry>,
    gone: VecDeque<(u64, Box<str>)>,
    /// What went up to this version is forgotten.
    gone_before: u64,
    events: VecDeque<(u64, Box<str>)>,
    left_out: usize,
    whole: Option<Frame>,
}

#[derive(Debug)]
struct Entry {
    version: u64,
    state: &'static str,
    json: Box<str>,
}

/// A page that reads a feed, until it is dropped.
#[derive(Debug)]
pub struct Reading {
    pub feed: Arc<Feed>,
    pub news: watch::Receiver<Frame>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.feed.pages.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Feed {
    pub fn new(namespace: &str, origin: u64) -> Self {
        Self {
            namespace: namespace.to_owned(),
            origin,
            state: Mutex::default(),
            newest: watch::Sender::new(Frame::default()),
            pages: AtomicUsize::new(0),
            filled: watch::Sender::new(false),
        }
    }

    /// Lets the pages begin that wait for the first of it.
    pub fn fill(&self) {
        self.filled.send_replace(true);
    }

    /// Waits until the first of it is there.
    pub async fn filled(&self) {
        // The sender is in `self`.
        let _ = self.filled.subscribe().wait_for(|filled| *filled).await;
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn is_read(&self) -> bool {
        self.pages.load(Ordering::Acquire) > 0
    }

    pub fn read(self: &Arc<Self>) -> Reading {
        self.pages.fetch_add(1, Ordering::AcqRel);
        Reading {
            feed: Arc::clone(self),
            news: self.newest.subscribe(),
        }
    }

    /// The version that the id of a message stands for, if it is one of ours and what has
    /// happened since is known.
    pub fn version_of(&self, id: &str) -> Option<u64> {
        let (origin, version) = id.split_once('-')?;
        let ours = u64::from_str_radix(origin, 16).ok()? == self.origin;
        let version: u64 = version.parse().ok()?;
        let state = self.locked();
        (ours && version >= state.gone_before && version <= state.version).then_some(version)
    }

    /// The version in which a row last changed.
    pub fn changed_in(&self, name: &str) -> Option<u64> {
        self.locked().rows.get(name).map(|entry| entry.version)
    }

    pub fn names(&self) -> Vec<Box<str>> {
        self.locked().rows.keys().cloned().collect()
    }

    /// Takes changes and makes the frame of them. What is as it was is no change; of rows
    /// whose numbers alone have changed only [`NUMBERS_MAX`] are taken.
    pub fn take(&self, changes: Changes) {
        let mut state = self.locked();
        let (from, to) = (state.version, state.version + 1);
        let (mut moved, mut counted) = (Vec::new(), Vec::new());
        for line in changes.lines {
            match state.rows.get(&line.name) {
                Some(entry) if *entry.json == *line.json => {}
                Some(entry) if entry.state == line.state => counted.push((entry.version, line)),
                Some(_) => moved.push(line),
                None if has_room(state.rows.len(), line.state) => moved.push(line),
                None => {}
            }
        }
        if counted.len() > NUMBERS_MAX {
            counted.sort_by_key(|(version, _)| *version);
            counted.truncate(NUMBERS_MAX);
        }
        moved.extend(counted.into_iter().map(|(_, line)| line));
        for line in &moved {
            let entry = Entry {
                version: to,
                state: line.state,
                json: line.json.as_str().into(),
            };
            state.rows.insert(line.name.clone(), entry);
        }
        let mut gone = changes.gone;
        gone.retain(|name| state.rows.remove(name).is_some());
        for name in &gone {
            state.gone.push_back((to, name.clone()));
            if state.gone.len() > GONE_MAX
                && let Some((version, _)) = state.gone.pop_front()
            {
                state.gone_before = version;
            }
        }
        if let Some(total) = changes.total {
            let left_out = total.saturating_sub(state.rows.len());
            if left_out != state.left_out {
                state.left_out = left_out;
                state.whole = None;
            }
        }
        if moved.is_empty() && gone.is_empty() && changes.events.is_empty() {
            return;
        }
        for event in &changes.events {
            state.events.push_back((to, event.as_str().into()));
            if state.events.len() > EVENTS_MAX {
                state.events.pop_front();
            }
        }
        state.version = to;
        state.whole = None;
        let rows = moved.iter().map(|line| line.json.as_str());
        let events = changes.events.iter().map(String::as_str);
        let bytes = self.change(to, rows, gone.iter().map(|name| &**name), events);
        drop(state);
        self.newest.send_replace(Frame { from, to, bytes });
    }

    /// What a page lacks that has this version; `None` for one that has nothing. A page that
    /// lacks nothing gets nothing.
    pub fn since(&self, known: Option<u64>) -> Option<Frame> {
        let newest = self.newest.borrow().clone();
        if known == Some(newest.from) && newest.to > newest.from {
            return Some(newest);
        }
        let mut state = self.locked();
        let to = state.version;
        match known {
            Some(known) if known == to => None,
            Some(known) if known >= state.gone_before => {
                let rows = state.rows.values().filter(|entry| entry.version > known);
                let gone = state
                    .gone
                    .iter()
                    .filter(|(version, name)| *version > known && !state.rows.contains_key(name));
                let events = state.events.iter().filter(|(version, _)| *version > known);
                let bytes = self.change(
                    to,
                    rows.map(|entry| &*entry.json),
                    gone.map(|(_, name)| &**name),
                    events.map(|(_, event)| &**event),
                );
                Some(Frame {
                    from: known,
                    to,
                    bytes,
                })
            }
            Some(_) | None => {
                let whole = state.whole.take().unwrap_or_else(|| self.whole(&state));
                state.whole = Some(whole.clone());
                Some(whole)
            }
        }
    }

    fn whole(&self, state: &State) -> Frame {
        let mut text = String::with_capacity(state.rows.len() * 96);
        // Writing to a string cannot fail. A namespace's name needs no escape.
        let _ = write!(
            text,
            "id: {:x}-{}\nevent: snapshot\ndata: {{\"namespace\":\"{}\",\"left_out\":{},\"rows\":[",
            self.origin, state.version, self.namespace, state.left_out
        );
        joined(&mut text, state.rows.values().map(|entry| &*entry.json));
        text.push_str("],\"events\":[");
        joined(&mut text, state.events.iter().map(|(_, event)| &**event));
        text.push_str("]}\n\n");
        Frame {
            from: 0,
            to: state.version,
            bytes: text.into(),
        }
    }

    fn change<'a>(
        &self,
        to: u64,
        rows: impl Iterator<Item = &'a str>,
        gone: impl Iterator<Item = &'a str>,
        events: impl Iterator<Item = &'a str>,
    ) -> Bytes {
        let mut text = String::new();
        let _ = write!(
            text,
            "id: {:x}-{to}\nevent: change\ndata: {{\"rows\":[",
            self.origin
        );
        joined(&mut text, rows);
        text.push_str("],\"gone\":[");
        // Valid names need no escape.
        let mut first = true;
        for name in gone {
            let comma = if std::mem::take(&mut first) { "" } else { "," };
            let _ = write!(text, "{comma}\"{name}\"");
        }
        text.push_str("],\"events\":[");
        joined(&mut text, events);
        text.push_str("]}\n\n");
        text.into()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_room(rows: usize, state: &str) -> bool {
    rows < LISTED_MAX || (state != "closed" && rows < 2 * LISTED_MAX)
}

fn joined<'a>(text: &mut String, parts: impl Iterator<Item = &'a str>) {
    let mut first = true;
    for part in parts {
        if !std::mem::take(&mut first) {
            text.push(',');
        }
        text.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, state: &'static str, calls: usize) -> Line {
        Line {
            name: name.into(),
            state,
            json: format!("{{\"name\":\"{name}\",\"calls\":{calls}}}"),
        }
    }

    fn lines(lines: Vec<Line>) -> Changes {
        Changes {
            lines,
            ..Changes::default()
        }
    }

    fn text(frame: Option<Frame>) -> String {
        let frame = frame.expect("there is something to tell");
        String::from_utf8(frame.bytes.to_vec()).unwrap()
    }

    #[test]
    fn a_page_gets_everything_once_and_then_only_what_changes() {
        let feed = Feed::new("default", 0xab);
        feed.take(lines(vec![line("a", "closed", 1), line("b", "closed", 1)]));
        let whole = feed.since(None).unwrap();
        assert!(text(Some(whole.clone())).starts_with("id: ab-1\nevent: snapshot\n"));
        assert!(feed.since(Some(whole.to)).is_none());
        feed.take(lines(vec![line("a", "closed", 1), line("b", "open", 1)]));
        let change = text(feed.since(Some(whole.to)));
        assert!(
            !change.contains("\"a\"") && change.contains("\"b\""),
            "{change}"
        );
        feed.take(lines(vec![line("b", "open", 1)]));
        assert!(feed.since(Some(2)).is_none());
    }

    #[test]
    fn a_slow_page_gets_the_newest_of_each_row_and_no_backlog() {
        let feed = Feed::new("default", 1);
        feed.take(lines(vec![line("a", "closed", 0), line("b", "closed", 0)]));
        for calls in 1..1_000 {
            feed.take(lines(vec![line("a", "closed", calls)]));
        }
        let change = text(feed.since(Some(1)));
        assert_eq!(change.matches("\"calls\"").count(), 1, "{change}");
        assert!(change.contains("\"calls\":999"), "{change}");
    }

    #[test]
    fn what_went_is_told_and_what_came_back_is_there() {
        let feed = Feed::new("default", 1);
        feed.take(lines(vec![line("a", "closed", 0), line("b", "closed", 0)]));
        let gone = |name: &str| Changes {
            gone: vec![name.into()],
            ..Changes::default()
        };
        feed.take(gone("a"));
        feed.take(gone("b"));
        feed.take(gone("b"));
        feed.take(lines(vec![line("b", "closed", 5)]));
        let change = text(feed.since(Some(1)));
        assert!(change.contains("\"gone\":[\"a\"]"), "{change}");
        assert!(change.contains("\"calls\":5"), "{change}");
    }

    #[test]
    fn an_id_of_another_run_or_of_long_ago_begins_anew() {
        let feed = Feed::new("default", 0xab);
        feed.take(lines(vec![line("a", "closed", 0)]));
        assert_eq!(feed.version_of("ab-1"), Some(1));
        assert_eq!(feed.version_of("ab-0"), Some(0));
        for bad in ["ac-1", "ab-2", "ab-", "1", "", "-1", "ab-1x"] {
            assert_eq!(feed.version_of(bad), None, "{bad}");
        }
        for round in 0..=GONE_MAX {
            let name = format!("n{round}");
            feed.take(lines(vec![line(&name, "closed", 0)]));
            feed.take(Changes {
                gone: vec![name.into()],
                ..Changes::default()
            });
        }
        assert_eq!(feed.version_of("ab-1"), None);
        assert!(text(feed.since(Some(1))).contains("event: snapshot"));
    }

    #[test]
    fn numbers_are_bounded_in_a_frame_and_all_get_their_turn() {
        let feed = Feed::new("default", 1);
        let all = |calls| {
            let names = (0..5_000).map(|at| format!("n{at}"));
            lines(names.map(|name| line(&name, "closed", calls)).collect())
        };
        feed.take(all(0));
        for turn in 1..=3 {
            feed.take(all(1));
            let newer = (0..5_000)
                .filter(|at| feed.changed_in(&format!("n{at}")) > Some(1))
                .count();
            assert_eq!(newer, (turn * NUMBERS_MAX).min(5_000));
        }
    }

    #[test]
    fn the_list_is_bounded_and_trouble_is_always_listed() {
        let feed = Feed::new("default", 1);
        let names = (0..LISTED_MAX + 5).map(|at| format!("n{at:06}"));
        feed.take(lines(names.map(|name| line(&name, "closed", 0)).collect()));
        feed.take(Changes {
            total: Some(LISTED_MAX + 6),
            ..lines(vec![line("troubled", "open", 0)])
        });
        assert_eq!(feed.names().len(), LISTED_MAX + 1);
        assert!(text(feed.since(None)).contains("\"left_out\":5"));
    }
}
