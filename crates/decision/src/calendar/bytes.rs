//! A calendar as bytes: what is promised. How many places that is in all, who holds them, and
//! which slots are known to be full follow from it.

use std::collections::BTreeMap;

use super::{Calendar, GROUPS, Grid, Marks, PAGE, Page};
use crate::{
    Nanos,
    bytes::{Bytes, Corrupt, Reader, fields},
};

const IMPOSSIBLE: Corrupt = Corrupt::Impossible("Calendar");

fields!(Page { used, holders } if |page| {
    page.holders
        .iter()
        .all(|(slot, group)| u64::from(*slot) < PAGE && u64::from(*group) < GROUPS)
});

impl Bytes for Calendar {
    fn write(&self, out: &mut Vec<u8>) {
        self.grid.slot().write(out);
        self.grid.rate_micros().write(out);
        self.from.write(out);
        self.latest.write(out);
        self.adapted.write(out);
        self.line.write(out);
        self.pages.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let (slot, rate_micros) = (Nanos::read(from)?, u64::read(from)?);
        let mut calendar = Self {
            grid: Grid::new(slot, rate_micros),
            from: Bytes::read(from)?,
            latest: Bytes::read(from)?,
            adapted: Bytes::read(from)?,
            line: Bytes::read(from)?,
            pages: BTreeMap::<u64, Page>::read(from)?,
            marks: Marks::default(),
            planned: 0,
            held: [0; GROUPS as usize],
        };
        let in_range = |number: &u64| *number < u64::MAX / PAGE;
        if calendar.grid.slot() != slot
            || calendar.grid.rate_micros() != rate_micros
            || !calendar.pages.keys().all(in_range)
        {
            return Err(IMPOSSIBLE);
        }
        for page in calendar.pages.values() {
            let used = page.used.iter().map(|used| u64::from(*used));
            calendar.planned = calendar.planned.saturating_add(used.sum());
            for (_, group) in &page.holders {
                calendar.held[usize::from(*group)] += 1;
            }
        }
        Ok(calendar)
    }
}
