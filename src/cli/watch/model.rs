//! What `holdoff watch` knows: the dependencies as they were told, and where the person is. It
//! reads no clock and asks nobody; `update` changes it and `view` draws it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use holdoff_client::proto::{BreakerState, Dependency, Event, Followed, PolicyValue};

use super::dialog::Dialog;
use crate::cli::{
    output::{Ink, Tone},
    span, status,
};

/// Events that are kept.
pub const EVENTS_MAX: usize = 2_000;
/// Samples of one dependency, one a second.
pub const SAMPLES_MAX: usize = 600;
/// Without a word from the service for so long, what is shown is called stale.
pub const STALE_AFTER: Duration = Duration::from_millis(3_500);

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// Since the program began; what is measured is measured with it.
    pub elapsed: Duration,
    /// For people.
    pub wall: jiff::Timestamp,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub told: Dependency,
    /// When it was true.
    pub seen: Duration,
    /// Which listing named it last; one that a whole listing left out is gone.
    pub listing: u64,
}

impl Row {
    /// With its spans as they are by now.
    pub fn aged(&self, now: Duration) -> Dependency {
        let since = now.saturating_sub(self.seen);
        let later = |span: &Option<prost_types::Duration>| {
            let span = span.as_ref()?;
            Some(span::to_wire(span::from_wire(span).saturating_add(since)))
        };
        let left = |span: &Option<prost_types::Duration>| {
            let left = span::from_wire(span.as_ref()?).saturating_sub(since);
            (left > Duration::ZERO).then(|| span::to_wire(left))
        };
        let mut aged = self.told.clone();
        aged.in_state_for = later(&aged.in_state_for);
        aged.open_for = left(&aged.open_for);
        aged.held_for = left(&aged.held_for);
        aged.next_planned_in = left(&aged.next_planned_in);
        if let Some(order) = &mut aged.r#override
            && let Some(span) = &order.expires_in
        {
            let left = span::from_wire(span).saturating_sub(since);
            order.expires_in = Some(span::to_wire(left));
        }
        if let Some(check) = &mut aged.check {
            check.age = later(&check.age);
            check.next_in = left(&check.next_in);
        }
        aged
    }
}

/// Which are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    All,
    Trouble,
    State(BreakerState),
}

impl Filter {
    pub const ROUND: [Self; 8] = [
        Self::All,
        Self::Trouble,
        Self::State(BreakerState::Open),
        Self::State(BreakerState::ForcedOpen),
        Self::State(BreakerState::HalfOpen),
        Self::State(BreakerState::Recovering),
        Self::State(BreakerState::ForcedClosed),
        Self::State(BreakerState::Closed),
    ];

    fn passes(self, d: &Dependency) -> bool {
        match self {
            Self::All => true,
            Self::Trouble => trouble(d) < QUIET,
            Self::State(state) => d.state() == state,
        }
    }
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Trouble,
    Name,
    Failing,
    Calls,
    Budget,
    Since,
}

impl Sort {
    pub const ROUND: [Self; 6] = [
        Self::Trouble,
        Self::Name,
        Self::Failing,
        Self::Calls,
        Self::Budget,
        Self::Since,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Trouble => "trouble first",
            Self::Name => "name",
            Self::Failing => "most failing",
            Self::Calls => "most calls",
            Self::Budget => "least budget",
            Self::Since => "newest change",
        }
    }
}

/// Numbers of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub calls: f64,
    pub failing: f64,
    pub left: u64,
    pub out: u64,
}

/// The values of a dependency's policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    Asked,
    Known(Vec<PolicyValue>),
    Refused(String),
}

#[derive(Clone, Debug)]
pub struct Page {
    pub name: Arc<str>,
    pub scroll: usize,
    pub samples: VecDeque<Sample>,
    pub policy: Policy,
    /// As it was asked for last.
    pub followed: Option<Followed>,
}

/// What is on the screen: its numbers are worth asking for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    #[default]
    Nothing,
    Lines(Vec<String>),
    Page(String),
}

/// What lies over the list or the page.
#[derive(Clone, Debug)]
pub enum Over {
    Nothing,
    Help,
    Search,
    Namespace(String),
    Dialog(Dialog),
}

/// How the service is heard.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// Nothing has come yet.
    Asked,
    Live,
    Lost(String),
}

#[derive(Clone, Debug)]
pub struct Model {
    pub server: String,
    pub namespace: String,
    pub ink: Ink,
    pub now: Now,
    pub link: Link,
    /// When the service was last heard.
    pub heard: Now,
    pub rows: BTreeMap<Arc<str>, Row>,
    pub listing: u64,
    pub events: VecDeque<Event>,
    pub missed: u64,
    pub filter: Filter,
    pub sort: Sort,
    pub search: String,
    /// Those that are listed, in order.
    pub order: Vec<Arc<str>>,
    pub stands: Stands,
    pub selected: Option<Arc<str>>,
    pub offset: usize,
    pub page: Option<Page>,
    pub pane: Pane,
    pub over: Over,
    pub notice: Option<Notice>,
    pub width: u16,
    pub height: u16,
}

/// Whether `order` is what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    Sorted,
    Changed,
}

/// Whether the events are shown under the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Shut,
    Events,
}

/// Something that is said in the last line for a while.
#[derive(Clone, Debug)]
pub struct Notice {
    pub text: String,
    pub tone: Tone,
    pub until: Duration,
}

impl Model {
    pub fn new(server: String, namespace: String, ink: Ink, now: Now, size: (u16, u16)) -> Self {
        Self {
            server,
            namespace,
            ink,
            now,
            link: Link::Asked,
            heard: now,
            rows: BTreeMap::new(),
            listing: 0,
            events: VecDeque::new(),
            missed: 0,
            filter: Filter::All,
            sort: Sort::Trouble,
            search: String::new(),
            order: Vec::new(),
            stands: Stands::Sorted,
            selected: None,
            offset: 0,
            page: None,
            pane: Pane::Shut,
            over: Over::Nothing,
            notice: None,
            width: size.0,
            height: size.1,
        }
    }

    pub fn is_stale(&self) -> bool {
        let silent = self.now.elapsed.saturating_sub(self.heard.elapsed);
        matches!(self.link, Link::Lost(_)) || silent > STALE_AFTER
    }

    /// The moment for which spans are shown: they stand still while nothing is heard.
    pub fn moment(&self) -> Now {
        if self.is_stale() {
            self.heard
        } else {
            self.now
        }
    }

    /// Of the page, else of the line that is chosen.
    pub fn chosen(&self) -> Option<&Row> {
        let name = match &self.page {
            Some(page) => Some(&page.name),
            None => self.selected.as_ref().or(self.order.first()),
        };
        self.rows.get(name?)
    }

    pub fn selected_at(&self) -> usize {
        let selected = self.selected.as_ref();
        let at = selected.and_then(|name| self.order.iter().position(|other| other == name));
        at.unwrap_or(0)
    }

    pub fn strip_height(&self) -> u16 {
        if self.height >= 16 { 3 } else { 0 }
    }

    pub fn pane_height(&self) -> u16 {
        match self.pane {
            Pane::Shut => 0,
            Pane::Events => (self.height / 3).max(2),
        }
    }

    /// Lines that the list has.
    pub fn list_height(&self) -> usize {
        let others = 4 + self.strip_height() + self.pane_height();
        usize::from(self.height.saturating_sub(others)).max(1)
    }

    pub fn seen(&self) -> Seen {
        match &self.page {
            Some(page) => Seen::Page(page.name.to_string()),
            None => Seen::Lines(self.visible()),
        }
    }

    /// Those of the list that are on the screen.
    pub fn visible(&self) -> Vec<String> {
        let names = self.order.iter().skip(self.offset);
        let shown = names.take(self.list_height());
        shown.map(|name| name.to_string()).collect()
    }

    /// Sorts again where something has changed, and keeps the chosen line on the screen.
    pub fn settle(&mut self) {
        if self.stands == Stands::Changed {
            self.sort_rows();
        }
        let at = self.selected_at();
        let height = self.list_height();
        let last = self.order.len().saturating_sub(height);
        self.offset = self
            .offset
            .min(at)
            .max((at + 1).saturating_sub(height))
            .min(last);
    }

    fn sort_rows(&mut self) {
        let wanted = self.search.to_lowercase();
        let listed = self.rows.iter().filter(|(_, row)| {
            self.filter.passes(&row.told) && (wanted.is_empty() || says(&row.told, &wanted))
        });
        let mut keyed: Vec<(f64, Arc<str>)> = listed
            .map(|(name, row)| (self.key(row), Arc::clone(name)))
            .collect();
        // The rows are by name, and the sort is stable.
        keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
        self.order = keyed.into_iter().map(|(_, name)| name).collect();
        let listed = |name: &Arc<str>| self.rows.contains_key(name) && self.order.contains(name);
        if !self.selected.as_ref().is_some_and(listed) {
            self.selected = None;
        }
        self.stands = Stands::Sorted;
    }

    fn key(&self, row: &Row) -> f64 {
        let d = &row.told;
        match self.sort {
            Sort::Trouble => trouble(d),
            Sort::Name => 0.0,
            Sort::Failing => -d.failure_ratio,
            Sort::Calls => -d.calls_per_second,
            Sort::Budget => d.budget_left as f64,
            Sort::Since => {
                let span = d.in_state_for.as_ref().map(span::from_wire);
                span.unwrap_or_default().as_secs_f64() - row.seen.as_secs_f64()
            }
        }
    }
}

/// Closed, and nothing the matter.
const QUIET: f64 = 4.9;

/// The worst first; among equals the one that fails most. As on the dashboard.
fn trouble(d: &Dependency) -> f64 {
    let rank = match d.state() {
        BreakerState::Open => 0.0,
        BreakerState::ForcedOpen => 1.0,
        BreakerState::HalfOpen => 2.0,
        BreakerState::Recovering => 3.0,
        BreakerState::ForcedClosed => 4.0,
        BreakerState::Closed | BreakerState::Unspecified => match is_troubled(d) {
            true => 4.8,
            false => 6.0,
        },
    };
    rank - d.failure_ratio.clamp(0.0, 1.0) * 0.9
}

fn is_troubled(d: &Dependency) -> bool {
    let shadow = !matches!(
        d.shadow_state(),
        BreakerState::Unspecified | BreakerState::Closed
    );
    d.held_for.is_some() || status::is_unhealthy(d) || shadow
}

/// Whether a search finds it: by name, reason, or the owner of an override.
fn says(d: &Dependency, wanted: &str) -> bool {
    let owner = d.r#override.as_ref().map_or("", |order| &order.owner);
    [&*d.name, &*d.detail, owner]
        .iter()
        .any(|text| text.to_lowercase().contains(wanted))
}
