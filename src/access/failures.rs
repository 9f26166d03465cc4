//! How many credentials of one address were refused lately. Past ten a second none from there is
//! looked at, so that nobody can try many.
//!
//! Bounded: at most so many addresses are kept, and those that find no place share one. A whole
//! /64 of IPv6 is one address, since one machine has as many.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use holdoff_decision::{Nanos, Time};

use super::places::network;

/// One is forgiven in so long; ten may come at once.
const EACH: Nanos = Nanos::from_millis(100);
const FULL: Nanos = Nanos::from_millis(900);
const ADDRESSES_MAX: usize = 4_096;

/// By address, the time at which all is forgiven.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<Option<IpAddr>, Time>>);

impl Failures {
    /// Whether so many were refused that none is looked at now.
    pub fn too_many(&self, address: Option<IpAddr>, now: Time) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = known.get(&place(&known, address)).copied();
        until.is_some_and(|until| until.since(now) > FULL)
    }

    /// One more was refused.
    pub fn add(&self, address: Option<IpAddr>, now: Time) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES_MAX {
            known.retain(|_, until| *until > now);
        }
        let place = place(&known, address);
        let until = known.entry(place).or_insert(now);
        *until = (*until).max(now) + EACH;
    }
}

/// Where an address is counted; `None` is shared by all that find no place.
fn place(known: &HashMap<Option<IpAddr>, Time>, address: Option<IpAddr>) -> Option<IpAddr> {
    let address = address.map(network);
    match known.len() < ADDRESSES_MAX || known.contains_key(&address) {
        true => address,
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000);

    fn v4(n: u32) -> Option<IpAddr> {
        Some(IpAddr::V4(n.into()))
    }

    #[test]
    fn ten_at_once_are_looked_at_and_then_ten_a_second() {
        let failures = Failures::default();
        let (mut looked, mut now) = (0, START);
        for _ in 0..10_000 {
            if !failures.too_many(v4(1), now) {
                looked += 1;
                failures.add(v4(1), now);
            }
            now = now + Nanos::from_millis(1);
        }
        assert!((105..=111).contains(&looked), "{looked} in ten seconds");
        assert!(!failures.too_many(v4(2), now), "another address");
    }

    #[test]
    fn addresses_are_bounded_and_those_without_a_place_share_one() {
        let failures = Failures::default();
        for n in 0..2 * ADDRESSES_MAX as u32 {
            failures.add(v4(n), START);
        }
        assert!(failures.0.lock().unwrap().len() <= ADDRESSES_MAX + 1);
        assert!(failures.too_many(v4(u32::MAX), START));
        assert!(!failures.too_many(v4(3), START));
        let later = START + Nanos::from_secs(3_600);
        failures.add(v4(5), later);
        assert_eq!(failures.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_network_of_one_machine_is_one_address() {
        let failures = Failures::default();
        for n in 0..10u128 {
            let address = (0x2001_0db8_u128 << 96) | n;
            failures.add(Some(IpAddr::V6(address.into())), START);
        }
        let another = "2001:db8::ffff".parse().unwrap();
        assert!(failures.too_many(Some(another), START));
    }
}
