//! All dependencies in numbers, and those in trouble by name: what metrics show.
//!
//! One walk over the store, which holds one of its shards at a time. What is shown of a single
//! dependency is only put together for those that are chosen.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    sync::Arc,
};

use holdoff_decision::{
    Context, Nanos, State, Time,
    policy::Mode,
    view::{View, view},
};

use super::{Coordinator, listing};
use crate::store::{Name, Slot, Store};

/// All dependencies, counted.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub closed: u64,
    pub open: u64,
    pub half_open: u64,
    pub recovering: u64,
    pub forced_open: u64,
    pub forced_closed: u64,
    pub held: u64,
    /// Their breaker is in shadow mode.
    pub shadow: u64,
    pub probes_out: u64,
    pub permits_out: u64,
    /// Attempts that hold a place in a calendar.
    pub planned: u64,
    /// Dependencies that there may be.
    pub limit: u64,
    /// Those most in trouble first, as many as were asked for.
    pub troubled: Vec<Seen>,
}

/// One dependency, for metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub name: Name,
    pub state: State,
    pub denials: u32,
    pub trips: u64,
    /// Retries that the budget would grant now.
    pub budget_left: u64,
    /// Share of the calls that failed, 0 to 1, as it is shown.
    pub failing: f64,
    pub successes_per_second: f64,
    /// What is left of its hold; 0: none.
    pub held_for: Nanos,
}

/// Not closed comes first, then who was denied most, then the name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Trouble {
    rank: u8,
    denials: u32,
    name: Reverse<(Arc<String>, Box<str>)>,
}

impl Survey {
    pub const fn dependencies(&self) -> u64 {
        self.closed
            + self.open
            + self.half_open
            + self.recovering
            + self.forced_open
            + self.forced_closed
    }

    fn count(&mut self, slot: &Slot, now: Time) -> State {
        let state = slot.record.state(&slot.policy, now);
        *match state {
            State::Closed => &mut self.closed,
            State::Open => &mut self.open,
            State::HalfOpen => &mut self.half_open,
            State::Recovering => &mut self.recovering,
            State::ForcedOpen => &mut self.forced_open,
            State::ForcedClosed => &mut self.forced_closed,
        } += 1;
        self.held += u64::from(now < slot.record.held_until());
        self.shadow += u64::from(slot.policy.breaker.mode == Mode::Shadow);
        self.probes_out += u64::from(slot.record.breaker.probes_out(now));
        self.permits_out += slot.record.tickets.outstanding();
        self.planned += slot.record.calendar().map_or(0, |it| it.planned());
        state
    }
}

impl<S: Store> Coordinator<S> {
    /// Counts all dependencies, and shows the `most` of them that are most in trouble.
    pub fn survey(&self, most: usize) -> Survey {
        let context = self.reading();
        let mut survey = Survey {
            limit: u64::from(self.policies.in_force().set.max_dependencies_total()),
            ..Survey::default()
        };
        // The least of the chosen is on top.
        let mut chosen: BinaryHeap<Reverse<Ranked>> = BinaryHeap::new();
        self.store.visit(&mut |_, slot| {
            let state = survey.count(slot, context.now);
            let rank = rank(state, slot, context.now);
            let has_room = chosen.len() < most;
            let worst = || {
                chosen
                    .peek()
                    .is_some_and(|Reverse(least)| least.is_below(rank, slot))
            };
            if has_room || worst() {
                chosen.push(Reverse(Ranked::of(rank, slot, &context)));
                if chosen.len() > most {
                    chosen.pop();
                }
            }
        });
        survey.troubled = chosen
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(ranked)| ranked.seen)
            .collect();
        survey
    }

    /// Dependencies that sessions follow, each session counted.
    pub fn subscriptions(&self) -> u64 {
        self.watchers.subscriptions()
    }
}

/// One that was chosen, and why.
#[derive(Debug)]
struct Ranked {
    trouble: Trouble,
    seen: Seen,
}

impl Ranked {
    fn of(rank: u8, slot: &Slot, context: &Context) -> Self {
        Self {
            trouble: Trouble {
                rank,
                denials: slot.notes.denials(),
                name: Reverse((
                    Arc::clone(&slot.name.namespace),
                    slot.name.dependency.clone(),
                )),
            },
            seen: seen(slot, view(&slot.policy, &slot.record, context)),
        }
    }

    /// Whether it is less in trouble than a slot, without a copy of the slot's name.
    fn is_below(&self, rank: u8, slot: &Slot) -> bool {
        let Trouble {
            rank: own,
            denials,
            name: Reverse((namespace, dependency)),
        } = &self.trouble;
        let numbers = (*own, *denials).cmp(&(rank, slot.notes.denials()));
        let names = (&**namespace, &**dependency)
            .cmp(&(&*slot.name.namespace, &*slot.name.dependency))
            .reverse();
        numbers.then(names) == Ordering::Less
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.trouble == other.trouble
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.trouble.cmp(&other.trouble)
    }
}

fn rank(state: State, slot: &Slot, now: Time) -> u8 {
    let held = u8::from(now < slot.record.held_until());
    match state {
        State::Open | State::ForcedOpen => 4,
        State::HalfOpen => 3,
        State::Recovering => 2,
        State::ForcedClosed => 1,
        State::Closed => held,
    }
}

fn seen(slot: &Slot, view: View) -> Seen {
    Seen {
        name: slot.name.clone(),
        state: view.state,
        denials: slot.notes.denials(),
        trips: view.trips,
        budget_left: view.budget.left(),
        failing: listing::failing_of(slot, &view),
        successes_per_second: view.throughput.unwrap_or(0.0),
        held_for: view.held_for.unwrap_or(Nanos::ZERO),
    }
}
