//! A record as bytes: what any process of the fleet reads as the same record.
//!
//! ```text
//! version | head: phase, epoch, since, touched | (number | part) ...
//! ```
//!
//! Parts come in the order of their numbers, each where it is not as in a new record. Those
//! below [`part::EVIDENCE`] are the *core*: what a breaker, its leases, an override, a hold and
//! the budget come to. It reads as a record of its own that has forgotten its evidence.
//!
//! Instants are those of the clock that the record was made by, so all who share it must share
//! that clock. There is exactly one form of each record: whatever else reads as the same is
//! refused, so two processes can compare bytes. Not written: changes that nobody has taken yet
//! (who writes a record has), and what follows from the rest.

use super::{Override, OverrideKind, Record, rare::SilentSecond};
use crate::{
    Time,
    breaker::Breaker,
    budget::Budget,
    bytes::{Bytes, Corrupt, Reader, fields, part as write_part, variants},
    calendar::Calendar,
    ramp::Ramp,
    rate::Rate,
    replay::Replays,
    throughput::Throughput,
    tickets::Tickets,
};

const VERSION: u8 = 1;

/// The numbers of parts. One that was given away is never given again.
pub(crate) mod part {
    pub const PAST: u8 = 1;
    pub const LEASES: u8 = 2;
    pub const ORDER: u8 = 3;
    pub const HELD: u8 = 4;
    pub const BUDGET: u8 = 5;
    /// From here on it is not core.
    pub const EVIDENCE: u8 = 16;
    pub const DETECTOR: u8 = 16;
    pub const RECENT: u8 = 17;
    pub const REPORTERS: u8 = 18;
    pub const LAST_SECOND: u8 = 19;
    pub const WINDOW: u8 = 20;
    pub const TICKETS: u8 = 21;
    pub const THROUGHPUT: u8 = 22;
    pub const CALLERS: u8 = 23;
    pub const CALENDAR: u8 = 24;
    pub const RAMP: u8 = 25;
    pub const REPLAYS: u8 = 26;
    pub const RATE: u8 = 27;
    pub const SILENCE: u8 = 28;
}

variants!(OverrideKind { ForceOpen = 0, ForceClosed = 1 });
fields!(Override {
    kind,
    owner,
    reason,
    set_at,
    expires
});

impl Record {
    /// Appends all of it.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_core(out);
        self.breaker.write_evidence(out);
        write_part(part::TICKETS, &self.tickets, &Tickets::default(), out);
        let (throughput, unknown) = (&self.throughput, Throughput::default());
        write_part(part::THROUGHPUT, throughput, &unknown, out);
        write_part(part::CALLERS, &self.budget.callers, &None, out);
        if let Some(rare) = &self.rare {
            write_part(part::CALENDAR, &rare.calendar, &None, out);
            write_part(part::RAMP, &rare.ramp, &None, out);
            write_part(part::REPLAYS, &rare.replays, &None, out);
            write_part(part::RATE, &rare.rate, &Rate::default(), out);
            write_part(part::SILENCE, &rare.silence, &SilentSecond::default(), out);
        }
    }

    /// Appends the core alone: at most 1 KiB with 64 probes out, and the words of an operator.
    pub fn write_core(&self, out: &mut Vec<u8>) {
        self.write_core_as_of(self.touched, out);
    }

    pub(super) fn write_core_as_of(&self, touched: Time, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.breaker.write(out);
        touched.write(out);
        self.breaker.write_core(out);
        if let Some(rare) = &self.rare {
            write_part(part::ORDER, &rare.order, &None, out);
            write_part(part::HELD, &rare.held_until, &Time::ORIGIN, out);
        }
        write_part(part::BUDGET, &self.budget, &Budget::default(), out);
    }

    /// Reads a record, or the core of one. The bytes may be anything.
    ///
    /// # Errors
    /// They are not what [`Self::write`] or [`Self::write_core`] makes of any record.
    pub fn read(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut from = Reader::new(bytes);
        match u8::read(&mut from)? {
            VERSION => {}
            version => return Err(Corrupt::Version(version)),
        }
        let mut record = Self::new(0, Time::ORIGIN);
        record.breaker = Breaker::read(&mut from)?;
        record.touched = Time::read(&mut from)?;
        let mut last = 0;
        while !from.is_empty() {
            let which = u8::read(&mut from)?;
            if which <= last {
                return Err(Corrupt::Impossible("order of parts"));
            }
            last = which;
            record.read_part(which, &mut from)?;
        }
        match record.writes(bytes, last < part::EVIDENCE) {
            true => Ok(record),
            false => Err(Corrupt::Impossible("form")),
        }
    }

    fn read_part(&mut self, which: u8, from: &mut Reader<'_>) -> Result<(), Corrupt> {
        if self.breaker.read_part(which, from)? {
            return Ok(());
        }
        match which {
            part::ORDER => self.rare_mut().order = Option::<Box<Override>>::read(from)?,
            part::HELD => self.rare_mut().held_until = Time::read(from)?,
            part::BUDGET => {
                let callers = self.budget.callers.take();
                self.budget = Budget::read(from)?;
                self.budget.callers = callers;
            }
            part::TICKETS => self.tickets = Tickets::read(from)?,
            part::THROUGHPUT => self.throughput = Throughput::read(from)?,
            part::CALLERS => self.budget.callers = Bytes::read(from)?,
            part::CALENDAR => self.rare_mut().calendar = Option::<Box<Calendar>>::read(from)?,
            part::RAMP => self.rare_mut().ramp = Option::<Box<Ramp>>::read(from)?,
            part::REPLAYS => self.rare_mut().replays = Option::<Box<Replays>>::read(from)?,
            part::RATE => self.rare_mut().rate = Rate::read(from)?,
            part::SILENCE => self.rare_mut().silence = SilentSecond::read(from)?,
            _ => return Err(Corrupt::Impossible("number of a part")),
        }
        Ok(())
    }

    /// Whether these bytes are the one form of this record.
    fn writes(&self, bytes: &[u8], is_core: bool) -> bool {
        let mut out = Vec::with_capacity(bytes.len());
        match is_core {
            true => self.write_core(&mut out),
            false => self.write(&mut out),
        }
        out == bytes
    }
}
