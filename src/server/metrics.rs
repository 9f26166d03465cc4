//! All metrics of a running service: what telemetry has counted, and what the coordinator, the
//! listeners and the process know.

use std::sync::Arc;

use holdoff_decision::State;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    coordinator::{Coordinator, Seen, Survey},
    settings::MetricsDependencies,
    store::{Figures, Store},
    telemetry::{Family, Telemetry, Value, exposition, process_families, table},
};

/// A scrape under `top-N` is never larger.
const BYTES_MAX: usize = 1024 * 1024;
/// A collector is sent at most so many dependencies, whatever `/metrics` shows: the SDK throws all
/// series of a metric above 2,000 together.
const COLLECTED_MAX: usize = 1_000;

/// See the module.
#[derive(Debug)]
pub struct Metrics<S> {
    coordinator: Arc<Coordinator<S>>,
    shown: MetricsDependencies,
    connections_limit: usize,
    /// One reads at a time; the others wait, and hold nothing but their place.
    turn: Arc<Semaphore>,
}

impl<S: Store> Metrics<S> {
    pub fn new(
        coordinator: Arc<Coordinator<S>>,
        shown: MetricsDependencies,
        connections_limit: usize,
    ) -> Self {
        Self {
            coordinator,
            shown,
            connections_limit,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    pub fn coordinator(&self) -> &Arc<Coordinator<S>> {
        &self.coordinator
    }

    pub fn telemetry(&self) -> &Arc<Telemetry> {
        self.coordinator.telemetry()
    }

    /// Waits until no other scrape is being read.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed, so there always is one.
        Arc::clone(&self.turn).acquire_owned().await.ok()
    }

    /// As Prometheus reads it. Walks over all dependencies: not for a thread that decides.
    pub fn exposition(&self) -> String {
        let most = match self.shown {
            MetricsDependencies::Off => 0,
            MetricsDependencies::Top(most) => most.get(),
            MetricsDependencies::All => usize::MAX,
        };
        let survey = self.coordinator.survey(most);
        let mut text = exposition(&self.of_all(&survey));
        let mut seen = &survey.troubled[..];
        if self.shown != MetricsDependencies::All {
            // The number of those left out comes after.
            let room = BYTES_MAX.saturating_sub(text.len() + 1_024);
            seen = &seen[..fitting(seen, room)];
        }
        text.push_str(&exposition(&of_each(seen)));
        text.push_str(&exposition(&[left_out(&survey, seen.len())]));
        text
    }

    /// For a collector: the same, with fewer dependencies.
    pub fn for_collector(&self) -> Vec<Family> {
        let most = match self.shown {
            MetricsDependencies::Off => 0,
            MetricsDependencies::Top(most) => most.get().min(COLLECTED_MAX),
            MetricsDependencies::All => COLLECTED_MAX,
        };
        let survey = self.coordinator.survey(most);
        let mut families = self.of_all(&survey);
        families.extend(of_each(&survey.troubled));
        families.push(left_out(&survey, survey.troubled.len()));
        families
    }

    /// All that does not grow with the number of dependencies.
    fn of_all(&self, survey: &Survey) -> Vec<Family> {
        let mut families = self.telemetry().families();
        families.extend(process_families());
        families.push(Family::of(
            &table::DEPENDENCIES,
            [
                (["closed"], survey.closed),
                (["open"], survey.open),
                (["half_open"], survey.half_open),
                (["recovering"], survey.recovering),
                (["forced_open"], survey.forced_open),
                (["forced_closed"], survey.forced_closed),
            ],
        ));
        let degraded = u64::from(self.coordinator.durability_degraded());
        let standing = self.coordinator.store_standing();
        let alone = u64::from(standing.is_some_and(|it| it.is_away));
        let whole = [
            (&table::DEPENDENCIES_LIMIT, survey.limit),
            (
                &table::DEPENDENCIES_OVERRIDDEN,
                survey.forced_open + survey.forced_closed,
            ),
            (&table::DEPENDENCIES_HELD, survey.held),
            (&table::DEPENDENCIES_SHADOW, survey.shadow),
            (&table::PROBES_OUT, survey.probes_out),
            (&table::PERMITS_OUT, survey.permits_out),
            (&table::CALENDAR_PLANNED, survey.planned),
            (&table::CONNECTIONS_LIMIT, self.connections_limit as u64),
            (&table::SUBSCRIPTIONS, self.coordinator.subscriptions()),
            (&table::DURABILITY_DEGRADED, degraded),
            (&table::STORE_DEGRADED, alone),
        ];
        families.extend(whole.map(|(metric, value)| Family::alone(metric, value)));
        families.extend(of_store(&self.coordinator.store_figures()));
        families
    }
}

fn of_store(figures: &Figures) -> [Family; 6] {
    [
        Family::of(
            &table::STORE_COMMANDS,
            [
                (["swap"], figures.swaps),
                (["look"], figures.looks),
                (["drop"], figures.drops),
                (["publish"], figures.publishes),
                (["keep"], figures.keeps),
            ],
        ),
        Family::alone(&table::STORE_SWAPS_LOST, figures.swaps_lost),
        Family::of(
            &table::STORE_DECISIONS,
            [
                (["in_place"], figures.decided_in_place),
                (["swap"], figures.decided_by_swap),
            ],
        ),
        Family::of(
            &table::STORE_MESSAGES,
            [
                (["told"], figures.told),
                (["heard"], figures.heard),
                (["lost"], figures.lost),
            ],
        ),
        Family::alone(&table::STORE_COPIES, figures.copies),
        Family::alone(&table::STORE_AWAY, u64::from(figures.is_away)),
    ]
}

/// How many of them fit so many bytes.
fn fitting(seen: &[Seen], room: usize) -> usize {
    // Each line has its metric's name, the punctuation, and a value of at most 24 letters.
    let punctuation = "{namespace=\"\",dependency=\"\"} \n".len() + 24;
    let lines: usize = table::PER_DEPENDENCY
        .iter()
        .map(|metric| metric.name.len() + punctuation)
        .sum();
    let metrics = table::PER_DEPENDENCY.len();
    let mut left = room;
    let fits = |seen: &&Seen| {
        let names = seen.name.namespace.len() + seen.name.dependency.len();
        // Names are letters that need no escape.
        let needed = lines + metrics * names;
        let fits = needed <= left;
        left = left.saturating_sub(needed);
        fits
    };
    seen.iter().take_while(fits).count()
}

fn left_out(survey: &Survey, shown: usize) -> Family {
    let left = survey.dependencies().saturating_sub(shown as u64);
    Family::alone(&table::DEPENDENCIES_LEFT_OUT, left)
}

fn of_each(seen: &[Seen]) -> Vec<Family> {
    let of = |metric, value: &dyn Fn(&Seen) -> Value| {
        let series = seen.iter().map(|it| {
            let labels = [
                it.name.namespace.to_string(),
                it.name.dependency.to_string(),
            ];
            (labels, value(it))
        });
        Family::of(metric, series)
    };
    vec![
        of(&table::DEPENDENCY_STATE, &|it| {
            Value::Whole(number(it.state))
        }),
        of(&table::DEPENDENCY_DENIALS, &|it| {
            u64::from(it.denials).into()
        }),
        of(&table::DEPENDENCY_TRIPS, &|it| it.trips.into()),
        of(&table::DEPENDENCY_BUDGET, &|it| it.budget_left.into()),
        of(&table::DEPENDENCY_FAILING, &|it| {
            Value::Number(rounded(it.failing))
        }),
        of(&table::DEPENDENCY_SUCCESSES, &|it| {
            Value::Number(rounded(it.successes_per_second))
        }),
        of(&table::DEPENDENCY_HELD, &|it| {
            Value::Number(rounded(
                std::time::Duration::from(it.held_for).as_secs_f64(),
            ))
        }),
    ]
}

/// Rising with the trouble, but for what an operator wants.
const fn number(state: State) -> u64 {
    match state {
        State::Closed => 0,
        State::Recovering => 1,
        State::HalfOpen => 2,
        State::Open => 3,
        State::ForcedOpen => 4,
        State::ForcedClosed => 5,
    }
}

/// To three places: nobody reads more, and each costs bytes.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
