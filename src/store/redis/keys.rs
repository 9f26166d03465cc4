//! Where things are in the store.
//!
//! ```text
//! prefix{shard}r<id>   a record            prefix{shard}m   what its shard remembers
//! prefix{shard}q<id>   report sequences    prefix{shard}i   the shard's index
//! prefix{0}clock       the clock           prefix{shard}c   the channel of its changes
//! prefix{0}key         the permit key         prefix{0}n<number>  a replica
//! prefix{0}policies    policies put over the API
//! prefix{0}e           what happened           prefix{0}w<run>     who told how much of it
//! prefix{0}h           who is there            prefix{0}b          the channel of news of these
//! prefix{0}alive       the replicas that are there
//! prefixt             the channel of what replicas tell each other
//! ```
//!
//! Ids are 16 hexadecimal digits: a keyed hash of namespace and name, each behind its length in
//! the record itself. So nobody can choose a name that imitates another or lands where he
//! likes. The hash tag is the shard and not the dependency: what a swap touches besides the
//! record (the index, the epochs, the channel) must lie in the same slot.

use crate::permit::DependencyId;

/// A power of two, so that they are even over any number of masters.
pub const SHARDS: u64 = 64;

/// The names of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

/// The keys that one call of the script touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub record: String,
    pub shard: String,
    pub index: String,
    /// Empty: nobody is told.
    pub channel: String,
    /// In the index; empty: not listed.
    pub id: String,
    pub number: u64,
}

impl Keys {
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    pub fn record(&self, id: DependencyId) -> Place {
        let digits = hex(id.0);
        self.place(id.0 % SHARDS, &format!("r{digits}"), digits)
    }

    pub fn sequence(&self, instance: u64) -> Place {
        let record = format!("q{}", hex(instance));
        self.place(instance % SHARDS, &record, String::new())
    }

    pub fn clock(&self) -> Place {
        self.place(0, "clock", String::new())
    }

    /// What operators have put over the API, as one record.
    pub fn policies(&self) -> Place {
        Place {
            channel: self.news(),
            ..self.place(0, "policies", String::new())
        }
    }

    /// What happened.
    pub fn events(&self) -> String {
        format!("{}{{0}}e", self.prefix)
    }

    /// How much of that one run of one replica has told.
    pub fn teller(&self, run: u64) -> String {
        format!("{}{{0}}w{}", self.prefix, hex(run))
    }

    /// Who is there.
    pub fn roll(&self) -> String {
        format!("{}{{0}}h", self.prefix)
    }

    /// The channel of what is new in these.
    pub fn news(&self) -> String {
        format!("{}{{0}}b", self.prefix)
    }

    pub fn permit_key(&self) -> String {
        format!("{}{{0}}key", self.prefix)
    }

    /// The replicas that are there, by the fleet's time in milliseconds.
    pub fn alive(&self) -> String {
        format!("{}{{0}}alive", self.prefix)
    }

    /// Claimed by the replica of this number.
    pub fn replica(&self, number: u16) -> String {
        format!("{}{{0}}n{number:04x}", self.prefix)
    }

    /// The channels of all changes, and those of what replicas tell each other.
    pub fn channels(&self) -> Vec<String> {
        let changes = (0..SHARDS).map(|shard| format!("{}{{{shard}}}c", self.prefix));
        changes.chain([self.told(), self.news()]).collect()
    }

    pub fn told(&self) -> String {
        format!("{}t", self.prefix)
    }

    pub fn index(&self, shard: u64) -> String {
        format!("{}{{{shard}}}i", self.prefix)
    }

    fn place(&self, shard: u64, record: &str, id: String) -> Place {
        let begin = format!("{}{{{shard}}}", self.prefix);
        Place {
            record: format!("{begin}{record}"),
            shard: format!("{begin}m"),
            index: format!("{begin}i"),
            channel: match id.is_empty() {
                true => String::new(),
                false => format!("{begin}c"),
            },
            id,
            number: shard,
        }
    }
}

/// The id in an index; `None`: it is none of ours.
pub fn id_of(digits: &str) -> Option<DependencyId> {
    (digits.len() == 16)
        .then(|| u64::from_str_radix(digits, 16).ok().map(DependencyId))
        .flatten()
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_one_swap_touches_has_the_same_hash_tag() {
        let keys = Keys::new("holdoff:");
        let place = keys.record(DependencyId(0x1F));
        assert_eq!(place.record, "holdoff:{31}r000000000000001f");
        for key in [&place.record, &place.shard, &place.index, &place.channel] {
            assert!(key.starts_with("holdoff:{31}"), "{key}");
        }
        assert_eq!(id_of(&place.id), Some(DependencyId(0x1F)));
        assert_eq!(id_of("short"), None);
    }
}
