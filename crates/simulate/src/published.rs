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
pub mod phases;
mod phases_table;
pub mod synchrony;

pub use figure::{Compared, Effort, Figure, Measured, Published, Section, Table};

/// The experiments, in the order in which they are shown.
pub const NAMES: [&str; 4] = ["contention", "phases", "budgets", "detectors"];

/// Runs one experiment; `None`: there is none of this name.
pub fn section(name: &str, effort: Effort) -> Option<Section> {
    Some(match name {
        "contention" => contention_table::section(effort, effort.of(50, 190)),
        "phases" => phases_table::section(effort),
        "budgets" => budgets_table::section(effort),
        "detectors" => detectors::section(effort),
        _ => return None,
    })
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

    #[test]
    fn every_experiment_has_a_section_of_its_name() {
        for name in NAMES {
            let found = section(name, Effort::Quick).unwrap();
            assert_eq!(found.name, name);
            assert!(
                found.tables.iter().all(|table| !table.rows.is_empty()),
                "{name}"
            );
            for table in &found.tables {
                let columns = table.columns.len();
                assert!(
                    table.rows.iter().all(|row| row.1.len() == columns),
                    "{}",
                    table.title
                );
            }
        }
        assert!(section("none", Effort::Quick).is_none());
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
