//! Between the values of a file and the types of the rules, for each type once.

use holdoff_decision::policy::*;
use holdoff_decision::{Nanos, Share};

use super::value::Value;

/// A type of the rules that is a single value in a file.
pub trait Written: Sized {
    fn to_value(&self) -> Value;
    /// `None` where the field's forms do not lead here.
    fn from_value(value: Value) -> Option<Self>;
}

/// An enum whose variants are words.
macro_rules! words {
    ($($type:ident { $($variant:ident = $word:literal),+ })+) => { $(
        impl Written for $type {
            fn to_value(&self) -> Value {
                Value::Word(match self { $(Self::$variant => $word),+ })
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    $(Value::Word($word) => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    )+ };
}

words! {
    Strategy { Fixed = "fixed", Linear = "linear", Exponential = "exponential" }
    PushbackScope { Caller = "caller", Dependency = "dependency" }
    Mode { Enforce = "enforce", Shadow = "shadow", Off = "off" }
    AppliesTo { All = "all", Retries = "retries", Auto = "auto" }
    Phase { Hash = "hash", Spread = "spread" }
}

/// A type that is one variant of [`Value`].
macro_rules! plain {
    ($($type:ident = $variant:ident),+) => { $(
        impl Written for $type {
            fn to_value(&self) -> Value {
                Value::$variant(*self)
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(plain) => Some(plain),
                    _ => None,
                }
            }
        }
    )+ };
}

plain!(Nanos = Span, u32 = Count, f64 = Number, bool = Flag);

impl Written for Share {
    fn to_value(&self) -> Value {
        Value::Number(self.as_ratio())
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Number(ratio) => Self::from_ratio(ratio),
            _ => None,
        }
    }
}

impl Written for MaxAttempts {
    fn to_value(&self) -> Value {
        match *self {
            Self::Limited(attempts) => Value::Count(attempts),
            Self::Unlimited => Value::Word("unlimited"),
        }
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Count(attempts) => Some(Self::Limited(attempts)),
            Value::Word("unlimited") => Some(Self::Unlimited),
            _ => None,
        }
    }
}

impl Written for Jitter {
    fn to_value(&self) -> Value {
        match *self {
            Self::None => Value::Word("none"),
            Self::Full => Value::Word("full"),
            Self::Equal => Value::Word("equal"),
            Self::Decorrelated => Value::Word("decorrelated"),
            Self::Proportional(share) => Value::Proportional(share),
        }
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Word("none") => Some(Self::None),
            Value::Word("full") => Some(Self::Full),
            Value::Word("equal") => Some(Self::Equal),
            Value::Word("decorrelated") => Some(Self::Decorrelated),
            Value::Proportional(share) => Some(Self::Proportional(share)),
            _ => None,
        }
    }
}

impl Written for RetryRate {
    fn to_value(&self) -> Value {
        match *self {
            Self::Off => Value::Word("off"),
            Self::Auto => Value::Word("auto"),
            Self::PerSecond(rate) => Value::Number(rate),
        }
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Word("off") => Some(Self::Off),
            Value::Word("auto") => Some(Self::Auto),
            Value::Number(rate) => Some(Self::PerSecond(rate)),
            _ => None,
        }
    }
}

impl Written for WindowSize {
    fn to_value(&self) -> Value {
        match *self {
            Self::Time(span) => Value::Span(span),
            Self::Calls(calls) => Value::Count(calls),
        }
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Span(span) => Some(Self::Time(span)),
            Value::Count(calls) => Some(Self::Calls(calls)),
            _ => None,
        }
    }
}
