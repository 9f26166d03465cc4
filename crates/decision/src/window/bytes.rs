//! The calls of a window as bytes: buckets as they are, single calls as two bits in a byte, and
//! their totals not at all.

use super::{BUCKETS, CALLS_MAX, Call, Calls, Counts};
use crate::bytes::{Bytes, Corrupt, Reader};

const IMPOSSIBLE: Corrupt = Corrupt::Impossible("Window");

impl Bytes for Call {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.failed) | u8::from(self.slow) << 1);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        match u8::read(from)? {
            bits @ 0..4 => Ok(Self {
                failed: bits & 1 != 0,
                slow: bits & 2 != 0,
            }),
            _ => Err(IMPOSSIBLE),
        }
    }
}

impl Bytes for Calls {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Time {
                bucket,
                newest,
                ring,
            } => {
                out.push(0);
                bucket.write(out);
                newest.write(out);
                ring.write(out);
            }
            Self::Last { limit, calls, .. } => {
                out.push(1);
                limit.write(out);
                calls.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        match u8::read(from)? {
            0 => {
                let bucket = u64::read(from)?;
                let newest = u64::read(from)?;
                let ring = <[Counts; BUCKETS as usize]>::read(from)?;
                match bucket {
                    0 => Err(IMPOSSIBLE),
                    _ => Ok(Self::Time {
                        bucket,
                        newest,
                        ring,
                    }),
                }
            }
            1 => {
                let limit = u32::read(from)?;
                let calls = std::collections::VecDeque::<Call>::read(from)?;
                if !(1..=CALLS_MAX).contains(&limit) || calls.len() > limit as usize {
                    return Err(IMPOSSIBLE);
                }
                let mut totals = Counts::default();
                calls.iter().for_each(|call| totals.add(*call, 1));
                Ok(Self::Last {
                    limit,
                    calls,
                    totals,
                })
            }
            _ => Err(IMPOSSIBLE),
        }
    }
}
