//! Permits as bytes: opaque to clients, self-describing to us, and made by nobody else.
//!
//! A permit carries all that is needed to judge its report, so the service keeps two bits of
//! one and no table. The last eight bytes are a SipHash of the others under a key that never
//! leaves the service (it is kept in the data directory, so that a permit of the run before is
//! recognised as ours). The tag tells accident and tinkering from a permit; it is no signature
//! for strangers.
//!
//! ```text
//! 0            1          9    13    18     24     32    39       45    49  57
//! version|kind dependency boot epoch serial issued delay lifetime retry tag
//! ```
//! Numbers are little-endian; times in nanoseconds. A delay of more than two years and a
//! lifetime of more than three days are written as that.

use std::hash::Hasher;

use bytes::Bytes;
use holdoff_decision::{Nanos, Permit, PermitKind, Time};
use siphasher::sip::SipHasher13;

const LENGTH: usize = 57;
const BODY: usize = LENGTH - 8;
const VERSION: u8 = 1;
const CHECK_LENGTH: usize = 16;
/// Where each field begins, and how many bytes it has.
const DEPENDENCY: Field = Field(1, 8);
const BOOT: Field = Field(9, 4);
const EPOCH: Field = Field(13, 5);
const SERIAL: Field = Field(18, 6);
const ISSUED: Field = Field(24, 8);
const DELAY: Field = Field(32, 7);
const LIFETIME: Field = Field(39, 6);
const RETRY: Field = Field(45, 4);
const TAG: Field = Field(BODY, 8);

#[derive(Clone, Copy)]
struct Field(usize, usize);

/// Names a dependency in permits and in the store: a keyed hash of its namespace and name,
/// so that nobody can choose names that collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DependencyId(pub u64);

/// Under this key of permits.
pub fn dependency_id(key: &[u8; 16], namespace: &str, name: &str) -> DependencyId {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write(namespace.as_bytes());
    hasher.write_u8(0);
    hasher.write(name.as_bytes());
    DependencyId(hasher.finish())
}

/// What bytes turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Ours, of this run.
    Permit(DependencyId, Permit),
    /// Ours, of an earlier run.
    EarlierRun(DependencyId, Permit),
    /// The shape of a permit, but not one that this key made.
    Unknown,
    /// Not even the shape.
    Malformed,
}

/// Makes and reads permits.
#[derive(Clone, Debug)]
pub struct PermitCodec {
    key: [u8; 16],
    boot: u32,
}

impl PermitCodec {
    /// `boot` rises with each start that keeps the key.
    pub fn new(key: [u8; 16], boot: u64) -> Self {
        Self {
            key,
            boot: boot as u32,
        }
    }

    pub fn dependency(&self, namespace: &str, name: &str) -> DependencyId {
        dependency_id(&self.key, namespace, name)
    }

    /// A hash of any other name that a client gives.
    pub fn hash(&self, text: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(text.as_bytes());
        hasher.finish()
    }

    pub fn write(&self, dependency: DependencyId, permit: &Permit) -> Bytes {
        let mut bytes = [0_u8; LENGTH];
        bytes[0] = VERSION << 4 | kind_code(permit.kind);
        DEPENDENCY.put(&mut bytes, dependency.0);
        BOOT.put(&mut bytes, u64::from(self.boot));
        EPOCH.put(&mut bytes, permit.epoch);
        SERIAL.put(&mut bytes, permit.serial);
        ISSUED.put(&mut bytes, permit.issued.0);
        DELAY.put(&mut bytes, permit.delay.0);
        let lifetime = permit.expires.since(permit.issued + permit.delay);
        LIFETIME.put(&mut bytes, lifetime.0);
        RETRY.put(&mut bytes, u64::from(permit.retry));
        let tag = self.tag(&bytes);
        TAG.put(&mut bytes, tag);
        Bytes::copy_from_slice(&bytes)
    }

    pub fn read(&self, bytes: &[u8]) -> Read {
        let Ok(bytes) = <&[u8; LENGTH]>::try_from(bytes) else {
            return Read::Malformed;
        };
        if bytes[0] >> 4 != VERSION {
            return Read::Malformed;
        }
        let ours = TAG.get(bytes) == self.tag(bytes);
        let (true, Some(kind)) = (ours, kind_of(bytes[0] & 0xF)) else {
            return Read::Unknown;
        };
        let (issued, delay) = (Time(ISSUED.get(bytes)), Nanos(DELAY.get(bytes)));
        let permit = Permit {
            epoch: EPOCH.get(bytes),
            serial: SERIAL.get(bytes),
            issued,
            delay,
            expires: issued + delay + Nanos(LIFETIME.get(bytes)),
            retry: RETRY.get(bytes) as u32,
            kind,
        };
        let dependency = DependencyId(DEPENDENCY.get(bytes));
        match BOOT.get(bytes) as u32 == self.boot {
            true => Read::Permit(dependency, permit),
            false => Read::EarlierRun(dependency, permit),
        }
    }

    /// The permit of a planned health check: its serial and a tag.
    pub fn write_check(&self, dependency: DependencyId, serial: u64) -> Bytes {
        let mut bytes = [0_u8; CHECK_LENGTH];
        bytes[..8].copy_from_slice(&serial.to_le_bytes());
        bytes[8..].copy_from_slice(&self.check_tag(dependency, serial).to_le_bytes());
        Bytes::copy_from_slice(&bytes)
    }

    /// The serial of a planned health check of this dependency.
    pub fn read_check(&self, dependency: DependencyId, bytes: &[u8]) -> Option<u64> {
        let (serial, tag) = bytes.split_first_chunk::<8>()?;
        let serial = u64::from_le_bytes(*serial);
        (*tag == self.check_tag(dependency, serial).to_le_bytes()).then_some(serial)
    }

    fn check_tag(&self, dependency: DependencyId, serial: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(b"check");
        hasher.write_u64(dependency.0);
        hasher.write_u64(serial);
        hasher.finish()
    }

    fn tag(&self, bytes: &[u8; LENGTH]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(&bytes[..BODY]);
        hasher.finish()
    }
}

impl Field {
    /// Writes the low bytes of `value`; the largest that fit where it has more.
    fn put(self, bytes: &mut [u8; LENGTH], value: u64) {
        let Self(at, width) = self;
        let max = u64::MAX >> (64 - 8 * width);
        bytes[at..at + width].copy_from_slice(&value.min(max).to_le_bytes()[..width]);
    }

    fn get(self, bytes: &[u8; LENGTH]) -> u64 {
        let Self(at, width) = self;
        let mut value = [0; 8];
        value[..width].copy_from_slice(&bytes[at..at + width]);
        u64::from_le_bytes(value)
    }
}

fn kind_code(kind: PermitKind) -> u8 {
    match kind {
        PermitKind::Call => 0,
        PermitKind::Probe => 1,
        PermitKind::Hedge => 2,
        PermitKind::Planned => 3,
    }
}

fn kind_of(code: u8) -> Option<PermitKind> {
    match code {
        0 => Some(PermitKind::Call),
        1 => Some(PermitKind::Probe),
        2 => Some(PermitKind::Hedge),
        3 => Some(PermitKind::Planned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit() -> Permit {
        Permit {
            epoch: 3,
            serial: 77,
            issued: Time(1_000_000_007),
            delay: Nanos(250_000_001),
            expires: Time(61_250_000_008),
            retry: 2,
            kind: PermitKind::Probe,
        }
    }

    #[test]
    fn a_permit_reads_back_as_it_was_written() {
        let codec = PermitCodec::new([7; 16], 4);
        let id = codec.dependency("default", "payments");
        assert_eq!(
            codec.read(&codec.write(id, &permit())),
            Read::Permit(id, permit())
        );
    }

    #[test]
    fn a_permit_of_an_earlier_run_is_told_apart() {
        let before = PermitCodec::new([7; 16], 4);
        let id = before.dependency("default", "payments");
        let after = PermitCodec::new([7; 16], 5);
        assert_eq!(
            after.read(&before.write(id, &permit())),
            Read::EarlierRun(id, permit())
        );
    }

    #[test]
    fn no_changed_byte_reads_as_a_permit() {
        let codec = PermitCodec::new([7; 16], 4);
        let written = codec.write(codec.dependency("default", "payments"), &permit());
        for at in 0..LENGTH {
            let mut bytes = written.to_vec();
            bytes[at] ^= 0x10;
            assert!(
                matches!(codec.read(&bytes), Read::Unknown | Read::Malformed),
                "byte {at}"
            );
        }
        assert_eq!(codec.read(&written[..LENGTH - 1]), Read::Malformed);
        assert_eq!(codec.read(b""), Read::Malformed);
    }

    #[test]
    fn the_permit_of_a_check_is_good_for_its_dependency_alone() {
        let codec = PermitCodec::new([7; 16], 1);
        let (id, other) = (codec.dependency("a", "b"), codec.dependency("a", "c"));
        let written = codec.write_check(id, 9);
        assert_eq!(codec.read_check(id, &written), Some(9));
        assert_eq!(codec.read_check(other, &written), None);
        assert_eq!(codec.read_check(id, b"short"), None);
        assert_eq!(
            codec.read(&written),
            Read::Malformed,
            "it is no permit of a call"
        );
    }

    #[test]
    fn a_namespace_and_a_name_are_not_run_together() {
        let codec = PermitCodec::new([7; 16], 1);
        assert_ne!(codec.dependency("a", "bc"), codec.dependency("ab", "c"));
    }
}
