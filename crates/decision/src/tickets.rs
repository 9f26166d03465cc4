//! Which permits are out. A permit describes itself, so all that is kept of one is two
//! bits: that it was not reported, and that no retry was granted on it.
//!
//! Permits are numbered by a serial; 64 neighbours share a word. A word is dropped when
//! each of its permits has been reported and followed, or when the last of them has
//! expired; those that were never reported are then counted, since silence is the
//! commonest symptom of a dependency that hangs. A word also ends when an eighth of a
//! permit's lifetime has passed, so that silence is noticed about in time.
//!
//! Why not a map of outstanding permits: at 100,000 decisions a second that live for a
//! minute it would hold six million entries.

use std::collections::VecDeque;

use crate::{Nanos, Time, bytes::fields};

const WORD: u64 = 64;
/// Words that are kept besides the newest: four million permits. Beyond it the oldest is
/// dropped: its permits are answered as duplicates, and their silence is not counted.
const OLDER_MAX: usize = 65_536;

/// The permits of one dependency that may still be reported.
#[derive(Clone, Debug, Default)]
pub struct Tickets {
    newest: Word,
    /// Number of the newest word; the older ones are numbered down from it.
    number: u64,
    /// Serials given out of the newest word.
    used: u8,
    opened: Time,
    /// Words before the newest that are of this epoch too: the silence of others says nothing.
    of_this_epoch: u32,
    older: Option<Box<VecDeque<Word>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    unreported: u64,
    unfollowed: u64,
    expires: Time,
}

fields!(Word { unreported, unfollowed, expires } if |word| {
    word.unreported & !word.unfollowed == 0
});
fields!(Tickets { newest, number, used, opened, of_this_epoch, older } if |tickets| {
    let older = tickets.older.as_ref().map_or(0, |older| older.len());
    let given_out = u64::MAX.checked_shr(64_u32.saturating_sub(tickets.used.into())).unwrap_or(0);
    u64::from(tickets.used) <= WORD
        && tickets.newest.unfollowed & !given_out == 0
        && older <= OLDER_MAX
        && older as u64 <= tickets.number
        && tickets.number < u64::MAX / WORD
        && tickets.older.as_ref().is_none_or(|older| !older.is_empty())
});

/// What is known of a serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    Unreported,
    Reported,
    /// Reported, and a retry was granted on it; or all is over and forgotten.
    Followed,
    /// Never given out.
    Unknown,
}

/// Permits that ended unreported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    pub permits: u32,
    pub ended: Time,
}

/// Serials have 48 bits: so many number the permits of one replica, the others the replica.
const OF_ONE_REPLICA: u32 = 36;
/// Replicas are numbered from 1; 0 is the only one.
pub const REPLICAS_MAX: u16 = (1 << (48 - OF_ONE_REPLICA)) - 1;

impl Tickets {
    /// Those of one of several replicas.
    pub fn of_replica(replica: u16) -> Self {
        Self {
            number: u64::from(replica.min(REPLICAS_MAX))
                << (OF_ONE_REPLICA - WORD.trailing_zeros()),
            ..Self::default()
        }
    }

    /// Those of one of several replicas whose earlier tickets gave out serials below `from`.
    pub fn of_replica_from(replica: u16, from: u64) -> Self {
        let mut tickets = Self::of_replica(replica);
        if tickets.are_of(from) {
            tickets.number = tickets.number.max(from.div_ceil(WORD));
        }
        tickets
    }

    /// Whether a serial was given out by one of several replicas for itself.
    pub fn is_of_one(serial: u64) -> bool {
        serial >> OF_ONE_REPLICA != 0
    }

    /// Whether these tickets gave out this serial, or might have: no other replica did.
    pub fn are_of(&self, serial: u64) -> bool {
        serial >> OF_ONE_REPLICA == (self.number * WORD) >> OF_ONE_REPLICA
    }

    /// Gives out the next serial, for a permit that ends at `expires`.
    pub fn issue(&mut self, expires: Time, now: Time, ttl: Nanos) -> u64 {
        let stale = self.used > 0 && now.since(self.opened).0 > ttl.0 / 8;
        if u64::from(self.used) == WORD || stale {
            self.begin_word();
        }
        if self.used == 0 {
            self.opened = now;
        }
        let bit = 1 << self.used;
        self.newest.unreported |= bit;
        self.newest.unfollowed |= bit;
        self.newest.expires = self.newest.expires.max(expires);
        self.used += 1;
        self.number * WORD + u64::from(self.used) - 1
    }

    /// No serial so high has been given out; the next may be higher still.
    pub fn next_serial(&self) -> u64 {
        self.number * WORD + u64::from(self.used)
    }

    pub fn look(&self, serial: u64) -> Ticket {
        let (number, bit) = (serial / WORD, 1_u64 << (serial % WORD));
        if number > self.number || (number == self.number && serial % WORD >= u64::from(self.used))
        {
            return Ticket::Unknown;
        }
        match self.word(number) {
            Some(word) if word.unreported & bit != 0 => Ticket::Unreported,
            Some(word) if word.unfollowed & bit != 0 => Ticket::Reported,
            Some(_) | None => Ticket::Followed,
        }
    }

    /// Notes that a permit was reported.
    pub fn report(&mut self, serial: u64) {
        if let Some(word) = self.word_mut(serial / WORD) {
            word.unreported &= !(1 << (serial % WORD));
        }
        self.drop_settled();
    }

    /// Notes that nothing more can come of a permit: a retry was granted on it, or it
    /// succeeded, or it is void.
    pub fn settle(&mut self, serial: u64) {
        if let Some(word) = self.word_mut(serial / WORD) {
            word.unreported &= !(1 << (serial % WORD));
            word.unfollowed &= !(1 << (serial % WORD));
        }
        self.drop_settled();
    }

    /// From now on silence is counted for new permits only: the epoch changed.
    pub fn begin_epoch(&mut self) {
        if self.used > 0 {
            self.begin_word();
        }
        self.of_this_epoch = 0;
    }

    /// Takes the oldest word that has expired and says how many of its permits, of this
    /// epoch, were never reported. `None`: no more words have expired.
    pub fn expire(&mut self, now: Time) -> Option<Silence> {
        let oldest = self.oldest_number();
        let word = match &mut self.older {
            Some(older) => {
                let expired = older.front().is_some_and(|word| word.expires <= now);
                expired.then(|| older.pop_front())??
            }
            None if self.newest.unfollowed != 0 && self.newest.expires <= now => {
                let word = self.newest;
                self.newest = Word::default();
                self.used = WORD as u8;
                word
            }
            None => return None,
        };
        self.free_older_if_empty();
        let counted = if self.number - oldest <= u64::from(self.of_this_epoch) {
            word.unreported.count_ones()
        } else {
            0
        };
        Some(Silence {
            permits: counted,
            ended: word.expires,
        })
    }

    /// Permits that were not reported and have not been counted as ended.
    pub fn outstanding(&self) -> u64 {
        let older = self.older.iter().flat_map(|older| older.iter());
        let words = older.chain([&self.newest]);
        words
            .map(|word| u64::from(word.unreported.count_ones()))
            .sum()
    }

    /// Whether nothing more can come of any permit.
    pub fn are_settled(&self) -> bool {
        self.newest.unfollowed == 0 && self.older.is_none()
    }

    /// When the last permit ends; the origin of time where none is out.
    pub fn last_end(&self) -> Time {
        let older = self.older.iter().flat_map(|older| older.iter());
        let open = older
            .chain([&self.newest])
            .filter(|word| word.unfollowed != 0);
        open.map(|word| word.expires).max().unwrap_or_default()
    }

    fn begin_word(&mut self) {
        let settled = self.newest.unfollowed == 0;
        if !settled || self.older.is_some() {
            let older = self.older.get_or_insert_default();
            older.push_back(self.newest);
            if older.len() > OLDER_MAX {
                older.pop_front();
            }
        }
        self.newest = Word::default();
        self.number += 1;
        self.of_this_epoch = self.of_this_epoch.saturating_add(1);
        self.used = 0;
        self.drop_settled();
    }

    fn drop_settled(&mut self) {
        if let Some(older) = &mut self.older {
            while older.front().is_some_and(|word| word.unfollowed == 0) {
                older.pop_front();
            }
        }
        self.free_older_if_empty();
    }

    fn free_older_if_empty(&mut self) {
        if self.older.as_ref().is_some_and(|older| older.is_empty()) {
            self.older = None;
        }
    }

    fn oldest_number(&self) -> u64 {
        self.number - self.older.as_ref().map_or(0, |older| older.len() as u64)
    }

    fn word(&self, number: u64) -> Option<&Word> {
        if number == self.number {
            return Some(&self.newest);
        }
        let at = number.checked_sub(self.oldest_number())?;
        self.older.as_ref()?.get(usize::try_from(at).ok()?)
    }

    fn word_mut(&mut self, number: u64) -> Option<&mut Word> {
        if number == self.number {
            return Some(&mut self.newest);
        }
        let at = number.checked_sub(self.oldest_number())?;
        self.older.as_mut()?.get_mut(usize::try_from(at).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Nanos = Nanos::from_secs(60);

    fn issue(tickets: &mut Tickets, now: Time) -> u64 {
        tickets.issue(now + TTL, now, TTL)
    }

    fn silent(tickets: &mut Tickets, now: Time) -> u32 {
        std::iter::from_fn(|| tickets.expire(now))
            .map(|silence| silence.permits)
            .sum()
    }

    #[test]
    fn a_ticket_is_unreported_then_reported_then_followed() {
        let mut tickets = Tickets::default();
        let serial = issue(&mut tickets, Time(1));
        assert_eq!(tickets.look(serial), Ticket::Unreported);
        tickets.report(serial);
        assert_eq!(tickets.look(serial), Ticket::Reported);
        tickets.settle(serial);
        assert_eq!(tickets.look(serial), Ticket::Followed);
        assert_eq!(tickets.look(serial + 1), Ticket::Unknown);
    }

    #[test]
    fn b35d_ten_million_reports_take_constant_memory() {
        let mut tickets = Tickets::default();
        let mut in_flight = VecDeque::new();
        for call in 0..10_000_000_u64 {
            in_flight.push_back(issue(&mut tickets, Time(call * 1000)));
            if in_flight.len() > 1000 {
                tickets.settle(in_flight.pop_front().unwrap());
            }
        }
        assert!(tickets.older.as_ref().unwrap().len() <= 17);
    }

    #[test]
    fn what_is_never_reported_is_counted_once_when_it_ends() {
        let mut tickets = Tickets::default();
        for call in 0..200 {
            let serial = issue(&mut tickets, Time(call));
            if call % 2 == 0 {
                tickets.report(serial);
            }
        }
        let end = Time(300) + TTL;
        assert_eq!(silent(&mut tickets, Time(100)), 0);
        assert_eq!(silent(&mut tickets, end), 100);
        assert_eq!(silent(&mut tickets, end), 0);
        assert_eq!(tickets.outstanding(), 0);
    }

    #[test]
    fn silence_is_noticed_within_an_eighth_of_a_lifetime() {
        let mut tickets = Tickets::default();
        for second in 0..60 {
            issue(&mut tickets, Time(0) + Nanos::from_secs(second));
        }
        assert!(silent(&mut tickets, Time(0) + Nanos::from_secs(68)) >= 1);
    }

    #[test]
    fn silence_of_another_epoch_says_nothing() {
        let mut tickets = Tickets::default();
        let old = issue(&mut tickets, Time(1));
        tickets.begin_epoch();
        assert_eq!(
            tickets.look(old),
            Ticket::Unreported,
            "it can still be told from a duplicate"
        );
        issue(&mut tickets, Time(2));
        assert_eq!(silent(&mut tickets, Time(3) + TTL), 1);
    }

    #[test]
    fn serials_are_never_given_twice() {
        let mut tickets = Tickets::default();
        let mut last = None;
        for step in 0..10_000_u64 {
            let now = Time(step * 1_000_000_000);
            let serial = issue(&mut tickets, now);
            assert!(last < Some(serial));
            last = Some(serial);
            if step % 7 == 0 {
                tickets.begin_epoch();
            }
            silent(&mut tickets, now);
        }
    }
}
