//! The checks of a dependency as bytes; read as if a stranger wrote them.

use super::{CHECKERS_MAX, Checker, Checks, Next, Verdict};
use crate::{
    Time,
    bytes::{Bytes, Corrupt, Reader, fields, variants},
};

variants!(Verdict { Unknown = 0, Healthy = 1, Unhealthy = 2 });
fields!(Checker {
    phase,
    grid,
    next,
    awaited
});
fields!(Checks {
    checkers, phases, kind, places, observers, next_serial, swept, began, verdict, failures, seen,
} if |checks| {
    let few = checks.checkers.len() <= CHECKERS_MAX && checks.phases.len() <= CHECKERS_MAX;
    few && checks.next_serial < u64::MAX / 2
});

impl Bytes for Next {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Run { serial, start } => {
                out.push(0);
                serial.write(out);
                start.write(out);
            }
            Self::Ask { at } => {
                out.push(1);
                at.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        match u8::read(from)? {
            0 => Ok(Self::Run {
                serial: u64::read(from)?,
                start: Time::read(from)?,
            }),
            1 => Ok(Self::Ask {
                at: Time::read(from)?,
            }),
            _ => Err(Corrupt::Impossible("Next")),
        }
    }
}
