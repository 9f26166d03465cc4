//! What is remembered, as bytes: the same in every process, and read as if a stranger wrote them.
//!
//! Each type names its fields once, in [`fields`] or [`variants`], and is written and read from
//! that one list, so the two cannot differ. Numbers are LEB128 (seven bits a byte, lowest
//! first), also instants: nanoseconds of the clock that the record was made by, which every
//! process that reads it must share. Floats are their bits, little-endian. A list, a text and a
//! map are their length and their members, an absent part is a zero.
//!
//! What is read may be anything: nothing here panics, nothing is allocated that was not read,
//! and what no rule could have made is refused. Why not serde: this crate has no dependency,
//! and a reader of strangers' bytes that refuses everything that is not canonical would be ours
//! in any case.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use crate::{Nanos, Time};

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// Written by a version of holdoff whose form is not known here.
    Version(u8),
    Ended,
    /// What no rule could have made, or not in its one form; of this type.
    Impossible(&'static str),
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "its form {version} is not known here"),
            Self::Ended => write!(f, "it ends too soon"),
            Self::Impossible(what) => write!(f, "its {what} cannot be"),
        }
    }
}

impl std::error::Error for Corrupt {}

/// Bytes of which the first ones have been read.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub fn left(&self) -> &'a [u8] {
        self.left
    }

    /// The next so many bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(Corrupt::Ended)?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (taken, left) = self.left.split_first_chunk().ok_or(Corrupt::Ended)?;
        self.left = left;
        Ok(*taken)
    }
}

/// What can be written and read back.
pub trait Bytes: Sized {
    fn write(&self, out: &mut Vec<u8>);

    /// # Errors
    /// The bytes are no such thing.
    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt>;
}

/// Writes and reads a type by the list of its fields. `without`: what is not written, and how
/// it begins; `if`: what holds for every one that a rule made.
macro_rules! fields {
    ($type:ident { $($field:ident),+ $(,)? }
     $(without { $($rest:ident: $value:expr),+ $(,)? })? $(if $check:expr)?) => {
        impl $crate::bytes::Bytes for $type {
            fn write(&self, out: &mut Vec<u8>) {
                $($crate::bytes::Bytes::write(&self.$field, out);)+
            }

            fn read(
                from: &mut $crate::bytes::Reader<'_>,
            ) -> Result<Self, $crate::bytes::Corrupt> {
                $(let $field = $crate::bytes::Bytes::read(from)?;)+
                let read = Self { $($field,)+ $($($rest: $value,)+)? };
                $(
                    let holds: fn(&Self) -> bool = $check;
                    if !holds(&read) {
                        return Err($crate::bytes::Corrupt::Impossible(stringify!($type)));
                    }
                )?
                Ok(read)
            }
        }
    };
}

/// Writes and reads an enum by the numbers of its variants.
macro_rules! variants {
    ($type:ident { $($variant:ident $(($($field:ident),+))? = $code:literal),+ $(,)? }) => {
        impl $crate::bytes::Bytes for $type {
            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($($field),+))? => {
                        out.push($code);
                        $($($crate::bytes::Bytes::write($field, out);)+)?
                    })+
                }
            }

            fn read(
                from: &mut $crate::bytes::Reader<'_>,
            ) -> Result<Self, $crate::bytes::Corrupt> {
                match <u8 as $crate::bytes::Bytes>::read(from)? {
                    $($code => {
                        $($(let $field = $crate::bytes::Bytes::read(from)?;)+)?
                        Ok(Self::$variant $(($($field),+))?)
                    })+
                    _ => Err($crate::bytes::Corrupt::Impossible(stringify!($type))),
                }
            }
        }
    };
}

pub(crate) use {fields, variants};

/// Writes a part behind its number, unless it is as a new one.
pub(crate) fn part<T: Bytes>(number: u8, value: &T, new: &T, out: &mut Vec<u8>) {
    let (begin, mut of_new) = (out.len(), Vec::new());
    out.push(number);
    value.write(out);
    new.write(&mut of_new);
    if out[begin + 1..] == of_new[..] {
        out.truncate(begin);
    }
}

impl Bytes for u8 {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        from.array::<1>().map(|[byte]| byte)
    }
}

impl Bytes for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        let mut left = *self;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = u8::read(from)?;
            let part = u64::from(byte & 0x7F);
            let overflows = shift == 63 && part > 1;
            let is_padded = byte == 0 && shift > 0;
            if overflows || is_padded {
                return Err(Corrupt::Impossible("number"));
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt::Impossible("number"))
    }
}

macro_rules! smaller_numbers {
    ($($type:ty),+) => {$(
        impl Bytes for $type {
            fn write(&self, out: &mut Vec<u8>) {
                (*self as u64).write(out);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
                Self::try_from(u64::read(from)?).map_err(|_| Corrupt::Impossible("number"))
            }
        }
    )+};
}

smaller_numbers!(u16, u32, usize);

macro_rules! floats {
    ($($type:ty),+) => {$(
        /// One that is no number is written as 0: no rule makes one.
        impl Bytes for $type {
            fn write(&self, out: &mut Vec<u8>) {
                let finite = if self.is_finite() { *self } else { 0.0 };
                out.extend(finite.to_le_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
                let value = Self::from_le_bytes(from.array()?);
                match value.is_finite() {
                    true => Ok(value),
                    false => Err(Corrupt::Impossible("fraction")),
                }
            }
        }
    )+};
}

floats!(f32, f64);

impl Bytes for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        match u8::read(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Corrupt::Impossible("flag")),
        }
    }
}

impl Bytes for Time {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        u64::read(from).map(Self)
    }
}

impl Bytes for Nanos {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        u64::read(from).map(Self)
    }
}

impl Bytes for String {
    fn write(&self, out: &mut Vec<u8>) {
        self.len().write(out);
        out.extend(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let length = usize::read(from)?;
        let text = std::str::from_utf8(from.take(length)?);
        text.map(str::to_owned)
            .map_err(|_| Corrupt::Impossible("text"))
    }
}

impl<T: Bytes> Bytes for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        self.iter().for_each(|it| it.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        bool::read(from)?.then(|| T::read(from)).transpose()
    }
}

impl<T: Bytes> Bytes for Box<T> {
    fn write(&self, out: &mut Vec<u8>) {
        T::write(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        T::read(from).map(Self::new)
    }
}

impl<A: Bytes, B: Bytes> Bytes for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        Ok((A::read(from)?, B::read(from)?))
    }
}

impl<T: Bytes + Copy + Default, const N: usize> Bytes for [T; N] {
    fn write(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|it| it.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let mut read = [T::default(); N];
        for it in &mut read {
            *it = T::read(from)?;
        }
        Ok(read)
    }
}

macro_rules! collections {
    ($($type:ident where $($bound:ident)+),+ $(,)?) => {$(
        impl<T: $($bound +)+> Bytes for $type<T> {
            fn write(&self, out: &mut Vec<u8>) {
                self.len().write(out);
                for it in self {
                    it.write(out);
                }
            }

            /// Grows as it is read: a count alone allocates nothing.
            fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
                let count = usize::read(from)?;
                if count > from.left.len() {
                    return Err(Corrupt::Ended);
                }
                (0..count).map(|_| T::read(from)).collect()
            }
        }
    )+};
}

collections! {
    Vec where Bytes,
    VecDeque where Bytes,
    BTreeSet where Bytes Ord,
}

impl<K: Bytes + Ord, V: Bytes> Bytes for BTreeMap<K, V> {
    fn write(&self, out: &mut Vec<u8>) {
        self.len().write(out);
        for (key, value) in self {
            key.write(out);
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let count = usize::read(from)?;
        if count > from.left.len() {
            return Err(Corrupt::Ended);
        }
        (0..count).map(|_| <(K, V)>::read(from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back<T: Bytes>(value: &T) -> Result<T, Corrupt> {
        let mut out = Vec::new();
        value.write(&mut out);
        let mut from = Reader::new(&out);
        let read = T::read(&mut from);
        assert!(from.is_empty());
        read
    }

    #[test]
    fn numbers_read_back_and_have_one_form() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            assert_eq!(read_back(&number), Ok(number));
        }
        for hostile in [
            &[0x80, 0][..],
            &[0xFF; 10],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2],
        ] {
            assert_eq!(
                u64::read(&mut Reader::new(hostile)),
                Err(Corrupt::Impossible("number"))
            );
        }
        assert_eq!(u64::read(&mut Reader::new(&[0x80])), Err(Corrupt::Ended));
        assert!(u16::read(&mut Reader::new(&[0x80, 0x80, 4])).is_err());
    }

    #[test]
    fn a_count_alone_allocates_nothing() {
        let mut bytes = Vec::new();
        u64::MAX.write(&mut bytes);
        assert_eq!(
            Vec::<u64>::read(&mut Reader::new(&bytes)),
            Err(Corrupt::Ended)
        );
        assert_eq!(String::read(&mut Reader::new(&bytes)), Err(Corrupt::Ended));
    }

    #[test]
    fn a_fraction_that_is_no_number_is_never_read() {
        assert_eq!(read_back(&f64::NAN), Ok(0.0));
        let infinite = f32::INFINITY.to_le_bytes();
        assert!(f32::read(&mut Reader::new(&infinite)).is_err());
    }
}
