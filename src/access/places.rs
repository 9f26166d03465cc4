//! How much of the service one may hold: connections of an address, sessions and watches of a
//! principal. Not how much there is for all of them together, which the listeners know.
//!
//! A whole /64 of IPv6 is one address, since one machine has as many. Who is over the limit of
//! an address is told so, as long as few have to be told; the rest are only cut off.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Peer, Principal};
/// Connections of one address that are over the limit and kept until they have been told so.
const TOLD_MAX: u32 = 16;

/// How much of the service one may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one address to a port.
    pub connections_per_address: NonZeroU32,
    /// Sessions of one token's or certificate's name.
    pub sessions_per_principal: NonZeroU32,
    /// Streams that operators look at, of one such name, or of an address where nobody has one.
    pub watches_per_principal: NonZeroU32,
}

/// Of one address.
const CONNECTIONS_MAX: u32 = 512;
/// Of one principal.
const SESSIONS_MAX: u32 = 2_000;
/// Of one principal: half of what the HTTP port has room for.
const WATCHES_MAX: u32 = 256;

impl Default for Limits {
    fn default() -> Self {
        // Neither is zero.
        let of = |most: u32| NonZeroU32::MIN.saturating_add(most - 1);
        Self {
            connections_per_address: of(CONNECTIONS_MAX),
            sessions_per_principal: of(SESSIONS_MAX),
            watches_per_principal: of(WATCHES_MAX),
        }
    }
}

/// What is held now, and by whom.
#[derive(Debug, Default)]
pub struct Places {
    limits: Limits,
    connections: Arc<Held<IpAddr>>,
    told: Arc<Held<IpAddr>>,
    sessions: Arc<Held<String>>,
    watches: Arc<Held<Watcher>>,
}

/// Who looks on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Watcher {
    Named(String),
    /// Nobody in particular, from there.
    At(IpAddr),
}

/// A limit that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    #[error(
        "this address has {0} connections already, which is the limit for one address; share one, \
         or raise --max-connections-per-address"
    )]
    Address(u32),
    #[error(
        "this principal has {0} sessions already, which is the limit for one principal; or raise \
         --max-sessions-per-principal"
    )]
    Principal(u32),
    #[error(
        "{0} watches and pages of this principal, or of this address where nobody has a name, are \
         open already, which is the limit; close some, or raise --max-watches-per-principal"
    )]
    Watches(u32),
}

/// What becomes of a new connection.
#[derive(Debug)]
pub enum Entry {
    Let(Place<IpAddr>),
    /// It is over the limit, and is to be told so.
    Told(Place<IpAddr>, Crowded),
    Cut,
}

impl Places {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// A connection. One whose other end has no address is let in: nobody is crowded by it.
    pub fn enter(&self, peer: &Peer) -> Option<Entry> {
        let address = network(peer.address()?.ip());
        let most = self.limits.connections_per_address.get();
        Some(match Held::take(&self.connections, &address, most) {
            Some(place) => Entry::Let(place),
            None => match Held::take(&self.told, &address, TOLD_MAX) {
                Some(place) => Entry::Told(place, Crowded::Address(most)),
                None => Entry::Cut,
            },
        })
    }

    /// A session of a principal; nobody in particular has as many as there is room for.
    ///
    /// # Errors
    /// It has as many as it may have.
    pub fn session(&self, principal: &Principal) -> Result<Option<Place<String>>, Crowded> {
        let Some(name) = principal.name() else {
            return Ok(None);
        };
        let most = self.limits.sessions_per_principal.get();
        let place = Held::take(&self.sessions, &name.to_owned(), most);
        place.map(Some).ok_or(Crowded::Principal(most))
    }

    /// A stream or page of somebody who looks on. Who has neither name nor address is let in.
    ///
    /// # Errors
    /// It has as many as it may have.
    pub fn watch(
        &self,
        principal: &Principal,
        peer: Option<&Peer>,
    ) -> Result<Option<Place<Watcher>>, Crowded> {
        let address = || Some(Watcher::At(network(peer?.address()?.ip())));
        let named = principal.name().map(|name| Watcher::Named(name.to_owned()));
        let Some(watcher) = named.or_else(address) else {
            return Ok(None);
        };
        let most = self.limits.watches_per_principal.get();
        let place = Held::take(&self.watches, &watcher, most);
        place.map(Some).ok_or(Crowded::Watches(most))
    }
}

/// An address as it is counted.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => IpAddr::V4(four),
            None => IpAddr::V6((six.to_bits() & !u128::from(u64::MAX)).into()),
        },
    }
}

/// How many each has; whoever has none is not in it.
#[derive(Debug)]
struct Held<K>(Mutex<HashMap<K, u32>>);

impl<K> Default for Held<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Held<K> {
    fn take(this: &Arc<Self>, by: &K, most: u32) -> Option<Place<K>> {
        let mut held = this.locked();
        let count = held.entry(by.clone()).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(held);
        Some(Place {
            held: Arc::clone(this),
            by: by.clone(),
        })
    }
}

impl<K> Held<K> {
    fn locked(&self) -> MutexGuard<'_, HashMap<K, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held for as long as this is kept.
#[derive(Debug)]
pub struct Place<K: Eq + Hash> {
    held: Arc<Held<K>>,
    by: K,
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut held = self.held.locked();
        if let Some(count) = held.get_mut(&self.by) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: u32) -> Places {
        let most = NonZeroU32::new(most).unwrap();
        Places::new(Limits {
            connections_per_address: most,
            sessions_per_principal: most,
            watches_per_principal: most,
        })
    }

    fn from(address: &str) -> Peer {
        Peer::new(Some(address.parse().unwrap()))
    }

    #[test]
    fn an_address_over_its_limit_is_told_so_and_past_that_cut_off() {
        let places = places(2);
        let one = from("192.0.2.1:1");
        let first = places.enter(&one);
        let _second = places.enter(&from("[::ffff:192.0.2.1]:7"));
        let mut told = Vec::new();
        for _ in 0..TOLD_MAX {
            let entry = places.enter(&one).unwrap();
            assert!(
                matches!(entry, Entry::Told(_, Crowded::Address(2))),
                "{entry:?}"
            );
            told.push(entry);
        }
        assert!(matches!(places.enter(&one), Some(Entry::Cut)));
        assert!(matches!(
            places.enter(&from("192.0.2.2:1")),
            Some(Entry::Let(_))
        ));
        drop(first);
        assert!(matches!(places.enter(&one), Some(Entry::Let(_))));
    }

    #[test]
    fn a_network_of_one_machine_is_one_address_and_what_ended_leaves_nothing() {
        let places = places(1);
        let held = places.enter(&from("[2001:db8::1]:1"));
        let other = places.enter(&from("[2001:db8::ffff]:1"));
        assert!(matches!(other, Some(Entry::Told(..))), "{other:?}");
        drop((held, other));
        assert!(places.connections.locked().is_empty());
        assert!(places.told.locked().is_empty());
    }

    #[test]
    fn nobody_in_particular_may_watch_as_much_from_one_address_as_a_name() {
        let places = places(2);
        let (nobody, here) = (Principal::anonymous(), from("192.0.2.1:1"));
        let held = [(); 2].map(|()| places.watch(&nobody, Some(&here)).unwrap());
        let refused = places.watch(&nobody, Some(&from("192.0.2.1:9")));
        assert_eq!(refused.unwrap_err(), Crowded::Watches(2));
        let there = from("192.0.2.2:1");
        assert!(places.watch(&nobody, Some(&there)).unwrap().is_some());
        assert!(places.watch(&nobody, None).unwrap().is_none());
        drop(held);
        assert!(places.watch(&nobody, Some(&here)).unwrap().is_some());
    }

    #[test]
    fn nobody_in_particular_has_no_limit_of_sessions() {
        let places = places(1);
        for _ in 0..3 {
            assert!(places.session(&Principal::anonymous()).unwrap().is_none());
        }
    }
}
