//! A breaker as bytes: its head, then each part that it has.

use super::{Breaker, Cause, Phase, last_second::LastSecond, rare::Lease};
use crate::{
    bytes::{Bytes, Corrupt, Reader, fields, part, variants},
    detector::Detector,
    evidence::{Reporters, Sketch},
    record::part as number,
    window::Window,
};

variants!(Cause {
    New = 0,
    Suspicion(much) = 1,
    Window(reached) = 2,
    ProbeFailed(kind) = 3,
    ProbeSlow(latency) = 4,
    FirstProbe = 5,
    ProbesSucceeded(successes) = 6,
    Recovered = 7,
    Override = 8,
    OverrideCleared = 9,
    OverrideExpired = 10,
    Reset = 11,
    Restored = 12,
});
variants!(Phase { Closed = 0, Open = 1, HalfOpen = 2 });
// The parts are written behind it.
fields!(Breaker { phase, epoch, since } without {
    detector: Detector::default(),
    recent: Sketch::default(),
    rare: None,
});

impl Breaker {
    /// The parts that belong to the core of a record.
    pub(crate) fn write_core(&self, out: &mut Vec<u8>) {
        if let Some(rare) = &self.rare {
            part(number::PAST, &self.past(), &Default::default(), out);
            part(number::LEASES, &rare.leases, &Vec::new(), out);
        }
    }

    /// Takes these parts, and the head, from a breaker that another replica has swapped in.
    /// Evidence is that of one epoch.
    pub(crate) fn take_core(&mut self, mut other: Self) {
        if other.epoch != self.epoch {
            self.forget_evidence();
        }
        (self.phase, self.epoch, self.since) = (other.phase, other.epoch, other.since);
        let (past, leases) = match &mut other.rare {
            Some(_) => {
                let past = other.past();
                (past, std::mem::take(&mut other.rare_mut().leases))
            }
            None => Default::default(),
        };
        *self.past_mut() = past;
        self.rare_mut().leases = leases;
        self.forget_rare(|_| ());
    }

    /// Takes the trip of a breaker that was a copy of this one. Leases stay.
    pub(crate) fn take_trip(&mut self, other: &Self) {
        self.forget_evidence();
        (self.phase, self.epoch, self.since) = (other.phase, other.epoch, other.since);
        *self.past_mut() = other.past();
    }

    pub(crate) fn write_evidence(&self, out: &mut Vec<u8>) {
        part(number::DETECTOR, &self.detector, &Detector::default(), out);
        part(number::RECENT, &self.recent, &Sketch::default(), out);
        if let Some(rare) = &self.rare {
            part(number::REPORTERS, &rare.reporters, &None, out);
            part(number::LAST_SECOND, &rare.last_second, &None, out);
            part(number::WINDOW, &rare.window, &None, out);
        }
    }

    /// Reads one of these parts; false where it is none of them.
    pub(crate) fn read_part(&mut self, which: u8, from: &mut Reader<'_>) -> Result<bool, Corrupt> {
        match which {
            number::PAST => *self.past_mut() = Bytes::read(from)?,
            number::LEASES => self.rare_mut().leases = Vec::<Lease>::read(from)?,
            number::DETECTOR => self.detector = Detector::read(from)?,
            number::RECENT => self.recent = Sketch::read(from)?,
            number::REPORTERS => {
                self.rare_mut().reporters = Option::<Box<Reporters>>::read(from)?;
            }
            number::LAST_SECOND => {
                self.rare_mut().last_second = Option::<LastSecond>::read(from)?;
            }
            number::WINDOW => self.rare_mut().window = Option::<Box<Window>>::read(from)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
