//! A length of time as scenarios write it: `150ms`, `2s`, `1m 30s`. A bare `0` is zero.

use std::fmt;

use holdoff_decision::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time, in whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Nanos);

impl Span {
    pub const ZERO: Self = Self(Nanos::ZERO);

    pub const fn from_micros(micros: u64) -> Self {
        Self(Nanos(micros * 1_000))
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(Nanos::from_millis(millis))
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self(Nanos::from_secs(secs))
    }

    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    pub const fn nanos(self) -> u64 {
        self.0.0
    }

    pub fn secs(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = humantime::format_duration(self.0.into());
        write!(f, "{exact}")
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a length of time with its unit, such as 150ms, 2s or 1m 30s")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        if text == "0" {
            return Ok(Span::ZERO);
        }
        humantime::parse_duration(text)
            .map(|duration| Span(duration.into()))
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Span, E> {
        match number {
            0 => Ok(Span::ZERO),
            other => Err(E::invalid_value(de::Unexpected::Unsigned(other), &self)),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Span, E> {
        match number {
            0 => Ok(Span::ZERO),
            other => Err(E::invalid_value(de::Unexpected::Signed(other), &self)),
        }
    }
}
