//! A slot as bytes: what replicas share of it.
//!
//! ```text
//! version | namespace | dependency | checks, where there are some | the record
//! ```
//!
//! The policy is not in it: each replica has its own, resolved again where it lags. Nor is a
//! candidate that is tried beside it: its judge judges what this replica sees.

use std::sync::Arc;

use holdoff_decision::{
    Nanos, Policy, Record, Time,
    breaker::Phase,
    bytes::{Bytes, Corrupt, Reader},
    check::Checks,
};

use super::{Beside, Name, Notes, Slot};

const VERSION: u8 = 1;
/// A slot whose policy was not resolved yet has the policies of no generation.
pub const UNRESOLVED: u32 = u32::MAX;

/// Appends what is shared of a slot.
pub fn write(slot: &Slot, out: &mut Vec<u8>) {
    write_head(slot, out);
    slot.record.write(out);
}

/// As [`write()`], of the record only what replicas share on the leased path.
pub fn write_shared(slot: &Slot, out: &mut Vec<u8>) {
    write_head(slot, out);
    slot.record.write_shared(out);
}

fn write_head(slot: &Slot, out: &mut Vec<u8>) {
    out.push(VERSION);
    write_text(&slot.name.namespace, out);
    write_text(&slot.name.dependency, out);
    let checks = slot
        .beside
        .as_ref()
        .and_then(|beside| beside.checks.as_ref());
    checks.is_some().write(out);
    checks.into_iter().for_each(|checks| checks.write(out));
}

/// Reads a slot. The bytes may be anything.
///
/// # Errors
/// They are not what [`write`] makes of any slot.
pub fn read(bytes: &[u8]) -> Result<Slot, Corrupt> {
    let mut from = Reader::new(bytes);
    match u8::read(&mut from)? {
        VERSION => {}
        version => return Err(Corrupt::Version(version)),
    }
    let namespace = String::read(&mut from)?;
    let dependency = String::read(&mut from)?.into_boxed_str();
    let checks = Option::<Checks>::read(&mut from)?;
    let slot = Slot {
        name: Name {
            namespace: Arc::new(namespace),
            dependency,
        },
        policy: Arc::new(Policy::default()),
        generation: UNRESOLVED,
        notes: Notes::default(),
        record: Record::read(from.left())?,
        beside: checks.map(|checks| {
            Box::new(Beside {
                checks: Some(checks),
                ..Beside::default()
            })
        }),
    };
    let mut again = Vec::with_capacity(bytes.len());
    write(&slot, &mut again);
    match again == bytes {
        true => Ok(slot),
        false => Err(Corrupt::Impossible("form")),
    }
}

/// Whether a record must outlive any idleness: what an operator ordered, what the dependency
/// asked for, and what keeps callers away from it.
pub fn is_protected(record: &Record, now: Time) -> bool {
    record.order().is_some() || now < record.held_until() || record.breaker.phase != Phase::Closed
}

/// Whether nobody drops a record that was used so lately.
pub fn is_fresh(record: &Record, idle_for: Nanos, now: Time) -> bool {
    now.since(record.touched) < idle_for
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    text.len().write(out);
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::a_slot;

    #[test]
    fn a_slot_reads_back_with_its_name_its_checks_and_no_policy() {
        let mut slot = a_slot("default", "payments");
        slot.checks_mut();
        let mut bytes = Vec::new();
        write(&slot, &mut bytes);
        let read_back = read(&bytes).unwrap();
        assert_eq!(read_back.name, slot.name);
        assert!(read_back.checks().is_some());
        assert_eq!(read_back.generation, UNRESOLVED);
    }

    #[test]
    fn names_that_run_together_are_told_apart() {
        let bytes_of = |namespace, dependency| {
            let mut bytes = Vec::new();
            write(&a_slot(namespace, dependency), &mut bytes);
            bytes
        };
        assert_ne!(bytes_of("a", "bc"), bytes_of("ab", "c"));
        let mut cut = bytes_of("a", "bc");
        cut.truncate(4);
        assert!(read(&cut).is_err());
        assert_eq!(read(&[9]).unwrap_err(), Corrupt::Version(9));
    }
}
