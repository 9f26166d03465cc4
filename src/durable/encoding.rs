//! How a value looks on disk: one byte of version, eight bytes of checksum, then JSON.
//!
//! JSON, because the values are few and small, a reader of one version back ignores a field it
//! does not know, and the file can be looked at by hand in an emergency. The checksum covers the
//! table and the key too: a value that was swapped with another is as damaged as one that was
//! changed. redb sums its pages as well, but with a sum that whoever writes through redb renews.

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// The version of the envelope. Fields may be added within a version, never change meaning.
pub(super) const VERSION: u8 = 1;
const SUM: usize = 8;

/// Why a stored value cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    Damaged,
    Newer(u8),
}

/// # Errors
/// Where the value has no JSON form; ours all have one.
pub(super) fn seal<T: Serialize>(
    table: &str,
    key: &[&[u8]],
    value: &T,
) -> serde_json::Result<Vec<u8>> {
    let payload = serde_json::to_vec(value)?;
    let mut sealed = Vec::with_capacity(1 + SUM + payload.len());
    sealed.push(VERSION);
    sealed.extend_from_slice(&sum(table, key, &payload));
    sealed.extend_from_slice(&payload);
    Ok(sealed)
}

pub(super) fn unseal<T: DeserializeOwned>(
    table: &str,
    key: &[&[u8]],
    sealed: &[u8],
) -> Result<T, Unusable> {
    let (&version, rest) = sealed.split_first().ok_or(Unusable::Damaged)?;
    if version > VERSION {
        return Err(Unusable::Newer(version));
    }
    let (stored, payload) = rest.split_first_chunk::<SUM>().ok_or(Unusable::Damaged)?;
    if version != VERSION || *stored != sum(table, key, payload) {
        return Err(Unusable::Damaged);
    }
    serde_json::from_slice(payload).map_err(|_| Unusable::Damaged)
}

fn sum(table: &str, key: &[&[u8]], payload: &[u8]) -> [u8; SUM] {
    let mut hasher = Sha256::new();
    for part in [table.as_bytes()].iter().chain(key) {
        put(&mut hasher, part);
    }
    hasher.update(payload);
    let mut short = [0; SUM];
    for (to, from) in short.iter_mut().zip(hasher.finalize()) {
        *to = from;
    }
    short
}

/// Length first, so that no two lists of parts have the same bytes.
pub(super) fn put(hasher: &mut Sha256, part: &[u8]) {
    hasher.update((part.len() as u64).to_le_bytes());
    hasher.update(part);
}

/// A wall-clock time as nanoseconds since 1970, saturating at both ends.
pub(super) mod wall {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        super::span::serialize(
            &time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO),
            to,
        )
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let since = Duration::from_nanos(u64::deserialize(from)?);
        Ok(UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH))
    }
}

/// A span of time as nanoseconds, saturating.
pub(super) mod span {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_sealed_value_is_noticed() {
        let sealed = seal("t", &[b"a", b"b"], &"value".to_owned()).unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                unseal::<String>("t", &[b"a", b"b"], &flipped).is_err(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_value_under_another_key_or_table_is_damaged() {
        let sealed = seal("t", &[b"a", b"b"], &1u64).unwrap();
        assert_eq!(unseal::<u64>("t", &[b"a", b"b"], &sealed), Ok(1));
        assert_eq!(
            unseal::<u64>("t", &[b"ab", b""], &sealed),
            Err(Unusable::Damaged)
        );
        assert_eq!(
            unseal::<u64>("u", &[b"a", b"b"], &sealed),
            Err(Unusable::Damaged)
        );
    }

    #[test]
    fn a_newer_version_is_told_apart_from_damage() {
        let mut sealed = seal("t", &[], &1u64).unwrap();
        sealed[0] = VERSION + 1;
        assert_eq!(
            unseal::<u64>("t", &[], &sealed),
            Err(Unusable::Newer(VERSION + 1))
        );
    }
}
