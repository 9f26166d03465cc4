//! Figures that others have published, reproduced here, with holdoff's own beside them.
//!
//! Each module is one experiment, defined as its source defines it. A strategy of others is
//! written here after its published description; where a formula is one of ours
//! (`holdoff_decision::backoff`), that is what runs. What is called holdoff is the rules of
//! `holdoff-decision` themselves: a record, a policy, and questions to it.
//!
//! A figure carries what it is compared with, and the sampling error of both says how far apart
//! they may lie ([`figure`]). The headline benchmark prints them and the tests hold them, from
//! the same values.

pub mod budgets;
pub mod budgets_of_others;
mod budgets_table;
pub mod contention;
mod contention_table;
pub mod detectors;
mod draws;
pub mod figure;
pub mod fleets;
mod herd;
mod herd_published;
mod herd_variants;
pub mod limits;
pub mod phases;
mod phases_table;
mod storm;
mod storm_published;
mod storm_variants;
pub mod synchrony;

pub use figure::{Compared, Effort, Figure, Measured, Published, Section, Table};

use crate::{Scenario, scenario::Invalid};

/// The experiments, in the order in which they are shown.
pub const NAMES: [&str; 7] = [
    "herd",
    "herd-settings",
    "storm",
    "contention",
    "phases",
    "budgets",
    "detectors",
];

/// The shipped scenarios that some experiments are.
#[derive(Clone, Debug)]
pub struct Scenarios {
    pub herd: Scenario,
    pub storm: Scenario,
}

/// Why there is no section.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Absent {
    #[error("no section `{0}`; there are {known}", known = NAMES.join(", "))]
    Unknown(String),
    #[error("a scenario cannot run: {0:?}")]
    Invalid(Vec<Invalid>),
}

/// Runs one experiment.
///
/// # Errors
/// There is none of this name, or its scenario is not one.
pub fn section(name: &str, effort: Effort, scenarios: &Scenarios) -> Result<Section, Absent> {
    match name {
        "herd" => herd::section(effort, &scenarios.herd).map_err(Absent::Invalid),
        "herd-settings" => herd_variants::section(effort, &scenarios.herd).map_err(Absent::Invalid),
        "storm" => storm::section(effort, &scenarios.storm).map_err(Absent::Invalid),
        "contention" => Ok(contention_table::section(effort, effort.of(50, 190))),
        "phases" => Ok(phases_table::section(effort)),
        "budgets" => Ok(budgets_table::section(effort)),
        "detectors" => Ok(detectors::section(effort)),
        unknown => Err(Absent::Unknown(unknown.into())),
    }
}

/// `page` with `text` between the markers of a section; `None`: it has none.
pub fn between_markers(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (
        format!("<!-- begin {name} -->\n"),
        format!("<!-- end {name} -->"),
    );
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{text}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenarios() -> Scenarios {
        let herd = include_str!("../../../scenarios/herd.yaml");
        let storm = include_str!("../../../scenarios/storm.yaml");
        Scenarios {
            herd: serde_saphyr::from_str(herd).unwrap(),
            storm: serde_saphyr::from_str(storm).unwrap(),
        }
    }

    #[test]
    fn what_is_published_of_the_herd_and_the_storm_comes_out_in_small_runs_too() {
        let scenarios = scenarios();
        for (name, least) in [("herd", 7), ("storm", 8)] {
            let found = section(name, Effort::Quick, &scenarios).unwrap();
            let figures = found.tables.iter().flat_map(|table| {
                let title = &table.title;
                table
                    .figures()
                    .map(move |(row, column, figure)| (format!("{title}: {row}, {column}"), figure))
            });
            let reproduced = figures.filter(|it| matches!(it.1.compared, Compared::Reproduces(_)));
            let (held, missed): (Vec<_>, Vec<_>) = reproduced.partition(|it| it.1.holds());
            assert!(missed.is_empty(), "{missed:#?}");
            assert!(held.len() >= least, "{name}: {}", held.len());
        }
    }

    #[test]
    fn every_experiment_has_a_section_of_its_name_and_full_rows() {
        let scenarios = scenarios();
        for name in NAMES {
            let found = section(name, Effort::Quick, &scenarios).unwrap();
            assert_eq!(found.name, name);
            for table in &found.tables {
                let columns = table.columns.len();
                assert!(!table.rows.is_empty(), "{}", table.title);
                assert!(
                    table.rows.iter().all(|row| row.1.len() == columns),
                    "{}",
                    table.title
                );
            }
        }
        let unknown = section("none", Effort::Quick, &scenarios);
        assert_eq!(unknown.unwrap_err(), Absent::Unknown("none".into()));
    }

    #[test]
    fn a_section_is_written_between_its_markers_and_nowhere_else() {
        let page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n";
        let once = between_markers(page, "x", "new\n\n").unwrap();
        assert_eq!(once, "a\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nb\n");
        assert_eq!(between_markers(&once, "x", "new\n\n").unwrap(), once);
        assert_eq!(between_markers(page, "y", "new"), None);
    }

    #[test]
    fn the_documentation_has_a_place_for_every_experiment() {
        let page = include_str!("../../../docs/benchmark.md");
        for name in NAMES {
            assert!(between_markers(page, name, "").is_some(), "{name}");
        }
    }
}
