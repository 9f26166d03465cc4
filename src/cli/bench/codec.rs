//! Messages as bytes. A load generator that builds and takes apart full messages spends
//! its core on that instead of on load, so questions are put together from encoded parts
//! and of answers only the verdicts are looked at.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Passes messages through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// One field of an encoded message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    Number(u32, u64),
    Bytes(u32, &'a [u8]),
}

/// Walks the fields of an encoded message; what cannot be read ends the walk.
#[derive(Clone, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let key = self.varint()?;
        let tag = u32::try_from(key >> 3).ok()?;
        match key & 7 {
            0 => Some(Field::Number(tag, self.varint()?)),
            1 => Some(Field::Bytes(tag, self.take(8)?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Some(Field::Bytes(tag, self.take(length)?))
            }
            5 => Some(Field::Bytes(tag, self.take(4)?)),
            _ => None,
        }
    }
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

/// What an encoded `AcquireResponse` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// With the permit.
    Granted(&'a [u8]),
    Denied,
    Nothing,
}

/// Reads the verdict of an encoded `AcquireResponse`.
pub fn verdict(response: &[u8]) -> Verdict<'_> {
    for field in Fields(response) {
        match field {
            Field::Bytes(1, grant) => {
                let permit = Fields(grant).find_map(|field| match field {
                    Field::Bytes(2, permit) => Some(permit),
                    Field::Bytes(..) | Field::Number(..) => None,
                });
                return Verdict::Granted(permit.unwrap_or_default());
            }
            Field::Bytes(2, _) => return Verdict::Denied,
            Field::Bytes(..) | Field::Number(..) => {}
        }
    }
    Verdict::Nothing
}

/// Appends a field of bytes.
pub fn put_bytes(to: &mut BytesMut, tag: u32, bytes: &[u8]) {
    prost::encoding::encode_key(tag, prost::encoding::WireType::LengthDelimited, to);
    prost::encoding::encode_varint(bytes.len() as u64, to);
    to.put_slice(bytes);
}

/// Appends a field of a number.
pub fn put_number(to: &mut BytesMut, tag: u32, number: u64) {
    prost::encoding::encode_key(tag, prost::encoding::WireType::Varint, to);
    prost::encoding::encode_varint(number, to);
}

/// The parts of a question that never change, and names that do.
#[derive(Clone, Debug)]
pub struct Questions {
    fixed: Bytes,
    dependencies: u32,
    state: u32,
}

impl Questions {
    /// Each worker has its own `seed`, and so its own order of names.
    pub fn new(fixed: &impl Message, dependencies: u32, seed: u32) -> Self {
        Self {
            fixed: fixed.encode_to_vec().into(),
            dependencies: dependencies.max(1),
            state: seed.wrapping_mul(0x9e37_79b9) | 1,
        }
    }

    /// Appends the next question: `bench-0000000` to `bench-9999999`, at random.
    pub fn put(&mut self, to: &mut BytesMut) {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        let mut number = self.state % self.dependencies;
        let mut name = *b"bench-0000000";
        for digit in name.iter_mut().rev().take(7) {
            *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
        }
        to.put_slice(&self.fixed);
        put_bytes(to, DEPENDENCY, &name);
    }

    /// How long a question is.
    pub fn size(&self) -> usize {
        self.fixed.len() + 15
    }
}

/// `AcquireRequest.dependency`.
const DEPENDENCY: u32 = 2;

#[cfg(test)]
mod tests {
    use holdoff_client::proto::{
        AcquireRequest, AcquireResponse, Denial, Grant, acquire_response::Verdict as Full,
    };

    use super::*;

    #[test]
    fn a_question_from_parts_reads_as_a_full_one() {
        let fixed = AcquireRequest {
            attempt: 1,
            safety: 2,
            ..Default::default()
        };
        let mut questions = Questions::new(&fixed, 10, 7);
        let mut bytes = BytesMut::new();
        questions.put(&mut bytes);
        assert_eq!(bytes.len(), questions.size());
        let read = AcquireRequest::decode(bytes.freeze()).unwrap();
        assert_eq!((read.attempt, read.safety), (1, 2));
        assert!(
            read.dependency.starts_with("bench-000000"),
            "{}",
            read.dependency
        );
    }

    #[test]
    fn a_verdict_is_found_without_reading_the_rest() {
        let response = |verdict| {
            let full = AcquireResponse {
                verdict,
                epoch: 300,
                state: 1,
                ..Default::default()
            };
            full.encode_to_vec()
        };
        let grant = Grant {
            permit: Bytes::from_static(b"pp"),
            probe: true,
            ..Default::default()
        };
        assert_eq!(
            verdict(&response(Some(Full::Grant(grant)))),
            Verdict::Granted(b"pp")
        );
        assert_eq!(
            verdict(&response(Some(Full::Denial(Denial::default())))),
            Verdict::Denied
        );
        assert_eq!(verdict(&response(None)), Verdict::Nothing);
        assert_eq!(verdict(&[0x0a, 0xff]), Verdict::Nothing, "cut off");
    }
}
