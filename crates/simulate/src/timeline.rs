//! What happens when: the events of a scenario under one seed, as stretches of time in which
//! nothing changes, and as sudden things that happen to the fleet.

use crate::{
    results,
    scenario::{Party, Scenario, What},
};

/// A stretch of time in which nothing changes but how warm the dependency is.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    pub from: u64,
    /// Exclusive.
    pub to: u64,
    pub mode: Mode,
    /// Share of calls that fail.
    pub failing: f64,
    /// On top of the latency of each call.
    pub slower_by: u64,
    /// Share of the capacity that works.
    pub strength: f64,
    /// Since when it has been warming up.
    pub warm_since: Option<u64>,
    /// Shares of the clients, from number 0 on, that do not reach it.
    pub cut_from_dependency: f64,
    pub cut_from_coordinator: f64,
    pub coordinator: Presence,
}

/// What the dependency does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Works,
    Refuses,
    Silent,
    Stalls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    /// It comes back with what it had written down, or without.
    Away {
        keeps_state: bool,
    },
}

/// Something sudden.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sudden {
    pub at: u64,
    pub kind: SuddenKind,
    pub share: f64,
    pub within: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuddenKind {
    Restart,
    BreakSessions,
    /// The coordinator goes, and its sessions with it.
    CoordinatorGoes,
    CoordinatorReturns {
        keeps_state: bool,
    },
}

/// Everything that happens in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub stretches: Vec<Stretch>,
    pub sudden: Vec<Sudden>,
    /// For plots, with times in seconds.
    pub spans: Vec<results::Span>,
    /// The begin of the first disturbance, and the end of the last.
    pub first_begin: Option<u64>,
    pub last_end: Option<u64>,
}

struct Window<'a> {
    from: u64,
    to: u64,
    what: &'a What,
}

impl Timeline {
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let end = scenario.duration.nanos();
        let windows = windows(scenario, seed);
        let lasting: Vec<&Window<'_>> = windows.iter().filter(|it| it.to > it.from).collect();
        // What happens to the coordinator alone does not count, unless nothing else happens.
        let counts = |it: &&Window<'_>| !is_about_coordinator(it.what);
        let (mut first, mut last) = extent(windows.iter().filter(counts));
        if first.is_none() {
            (first, last) = extent(windows.iter());
        }
        Self {
            stretches: stretches(&lasting, end),
            sudden: sudden(&windows),
            spans: lasting
                .iter()
                .map(|it| results::Span {
                    label: label(it.what).to_owned(),
                    from_s: it.from as f64 / 1e9,
                    to_s: it.to.min(end) as f64 / 1e9,
                })
                .collect(),
            first_begin: first,
            last_end: last.filter(|it| *it < end),
        }
    }
}

/// Every window, in the order of their begins. The length that varies depends on the seed so
/// that twenty seeds meet twenty different phases: `37 * seed mod 100` hundredths of it.
fn windows(scenario: &Scenario, seed: u64) -> Vec<Window<'_>> {
    let hundredths = seed.wrapping_mul(37) % 100;
    let mut windows = Vec::new();
    for event in &scenario.events {
        let lasts = event.lasts.nanos() + event.varies.nanos() / 100 * hundredths;
        let (every, times) = match &event.repeat {
            Some(repeat) => (repeat.every.nanos(), repeat.times),
            None => (0, 1),
        };
        for time in 0..u64::from(times) {
            let from = event.at.nanos() + time * every;
            windows.push(Window {
                from,
                to: from + lasts,
                what: &event.what,
            });
        }
    }
    windows.sort_by_key(|it| it.from);
    windows
}

fn extent<'a, 'b: 'a>(
    windows: impl Iterator<Item = &'a Window<'b>> + Clone,
) -> (Option<u64>, Option<u64>) {
    (
        windows.clone().map(|it| it.from).min(),
        windows.map(|it| it.to).max(),
    )
}

fn is_about_coordinator(what: &What) -> bool {
    match what {
        What::LoseCoordinator { .. } => true,
        What::Partition { from, .. } => !from.contains(&Party::Dependency),
        What::Refuse
        | What::Blackhole
        | What::Stall
        | What::Fail { .. }
        | What::Slow { .. }
        | What::Weaken { .. }
        | What::RestartClients { .. }
        | What::BreakSessions { .. } => false,
    }
}

fn label(what: &What) -> &'static str {
    match what {
        What::Refuse => "dependency refuses",
        What::Blackhole => "dependency is silent",
        What::Stall => "dependency stalls",
        What::Fail { .. } => "dependency fails in part",
        What::Slow { .. } => "dependency is slow",
        What::Weaken { .. } => "dependency is weak",
        What::RestartClients { .. } => "clients restart",
        What::BreakSessions { .. } => "sessions break",
        What::LoseCoordinator { .. } => "coordinator is away",
        What::Partition { .. } => "part of the fleet is cut off",
    }
}

fn stretches(windows: &[&Window<'_>], end: u64) -> Vec<Stretch> {
    let mut bounds: Vec<u64> = windows.iter().flat_map(|it| [it.from, it.to]).collect();
    bounds.extend([0, end]);
    bounds.sort_unstable();
    bounds.dedup();
    let mut begun = windows.iter().peekable();
    let mut active: Vec<&Window<'_>> = Vec::new();
    let mut stretches: Vec<Stretch> = Vec::with_capacity(bounds.len());
    for (index, from) in bounds.iter().copied().enumerate() {
        active.retain(|it| it.to > from);
        while let Some(window) = begun.next_if(|it| it.from <= from) {
            active.push(window);
        }
        let to = bounds.get(index + 1).copied().unwrap_or(u64::MAX);
        let mut stretch = Stretch::quiet(from, to);
        active.iter().for_each(|it| stretch.apply(it.what));
        let before = stretches.last();
        stretch.warm_since = match (before, stretch.mode) {
            (Some(before), Mode::Works) if before.mode != Mode::Works => Some(from),
            (Some(before), Mode::Works) => before.warm_since,
            (Some(_) | None, _) => None,
        };
        stretches.push(stretch);
    }
    stretches
}

impl Stretch {
    fn quiet(from: u64, to: u64) -> Self {
        Self {
            from,
            to,
            mode: Mode::Works,
            failing: 0.0,
            slower_by: 0,
            strength: 1.0,
            warm_since: None,
            cut_from_dependency: 0.0,
            cut_from_coordinator: 0.0,
            coordinator: Presence::There,
        }
    }

    fn apply(&mut self, what: &What) {
        match what {
            What::Refuse => self.mode = Mode::Refuses,
            What::Blackhole => self.mode = Mode::Silent,
            What::Stall => self.mode = Mode::Stalls,
            What::Fail { share } => self.failing = self.failing.max(*share),
            What::Slow { by } => self.slower_by += by.nanos(),
            What::Weaken { to } => self.strength = self.strength.min(*to),
            What::LoseCoordinator { keeps_state } => {
                self.coordinator = Presence::Away {
                    keeps_state: *keeps_state,
                };
            }
            What::Partition { share, from } => {
                for party in from {
                    match party {
                        Party::Dependency => self.cut_from_dependency = *share,
                        Party::Coordinator => self.cut_from_coordinator = *share,
                    }
                }
            }
            What::RestartClients { .. } | What::BreakSessions { .. } => {}
        }
    }
}

fn sudden(windows: &[Window<'_>]) -> Vec<Sudden> {
    let mut sudden = Vec::new();
    for window in windows {
        let of_clients = |kind, share: f64, within: u64| Sudden {
            at: window.from,
            kind,
            share,
            within,
        };
        match window.what {
            What::RestartClients { share, within } => {
                sudden.push(of_clients(SuddenKind::Restart, *share, within.nanos()));
            }
            What::BreakSessions { share, within } => {
                sudden.push(of_clients(
                    SuddenKind::BreakSessions,
                    *share,
                    within.nanos(),
                ));
            }
            What::LoseCoordinator { keeps_state } => {
                sudden.push(of_clients(SuddenKind::CoordinatorGoes, 1.0, 0));
                sudden.push(Sudden {
                    at: window.to,
                    ..of_clients(
                        SuddenKind::CoordinatorReturns {
                            keeps_state: *keeps_state,
                        },
                        1.0,
                        0,
                    )
                });
            }
            What::Refuse
            | What::Blackhole
            | What::Stall
            | What::Fail { .. }
            | What::Slow { .. }
            | What::Weaken { .. }
            | What::Partition { .. } => {}
        }
    }
    sudden.sort_by_key(|it| it.at);
    sudden
}
