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
//! A channel of another database than 0 has `/` and its number behind it: to servers all databases
//! have the same channels.
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
    /// Behind the name of each channel: they know no databases.
    of_database: String,
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
    pub fn new(prefix: &str, database: i64) -> Self {
        Self {
            prefix: prefix.to_owned(),
            of_database: match database {
                0 => String::new(),
                other => format!("/{other}"),
            },
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
        format!("{}{{0}}b{}", self.prefix, self.of_database)
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
        let changes = (0..SHARDS).map(|shard| self.changes(shard));
        changes.chain([self.told(), self.news()]).collect()
    }

    pub fn told(&self) -> String {
        format!("{}t{}", self.prefix, self.of_database)
    }

    fn changes(&self, shard: u64) -> String {
        format!("{}{{{shard}}}c{}", self.prefix, self.of_database)
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
                false => self.changes(shard),
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
        let keys = Keys::new("holdoff:", 0);
        let place = keys.record(DependencyId(0x1F));
        assert_eq!(place.record, "holdoff:{31}r000000000000001f");
        for key in [&place.record, &place.shard, &place.index, &place.channel] {
            assert!(key.starts_with("holdoff:{31}"), "{key}");
        }
        assert_eq!(id_of(&place.id), Some(DependencyId(0x1F)));
        assert_eq!(id_of("short"), None);
    }

    #[test]
    fn no_channel_is_one_of_another_database() {
        let all = [0, 2, 12].map(|database| Keys::new("holdoff:", database));
        let mut channels: Vec<_> = all.iter().flat_map(Keys::channels).collect();
        let many = channels.len();
        channels.sort();
        channels.dedup();
        assert_eq!(channels.len(), many);
        for keys in all {
            let place = keys.record(DependencyId(0x1F));
            assert!(keys.channels().contains(&place.channel));
            assert!(keys.channels().contains(&keys.policies().channel));
            assert_eq!(place.record, "holdoff:{31}r000000000000001f");
        }
    }
}
