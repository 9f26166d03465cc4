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

//pub mod budgets;
//pub mod budgets_of_others;
pub mod contention;
pub mod contention_table;
//pub mod detectors;
mod draws;
pub mod figure;
//pub mod phases;
//pub mod phases_table;
//pub mod synchrony;

pub use figure::{Compared, Effort, Figure, Measured, Published, Section, Table};
