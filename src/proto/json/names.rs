//! Each field by a name of the contract, in either spelling, and at most once: of two values one
//! reader would take the first and another the last, so a proxy that looks at a body might not see
//! what is decided by.
//!
//! Also numbers beyond any that there is, which the reader of JSON takes for bad syntax.

use std::{
    collections::BTreeSet,
    fmt::{self, Write},
};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use super::{PACKAGE, Unreadable};

/// Of a name that is told back.
const NAME_SHOWN: usize = 64;
/// How serde_json begins what it says of `1e400`.
const BEYOND: &str = "number out of range";

/// Looks at names alone; that the values fit is not its subject.
///
/// # Errors
/// The first field that there is not, stands twice, or holds a number beyond any; or no JSON.
pub fn check(shape: &MessageDescriptor, text: &[u8]) -> Result<(), Unreadable> {
    let mut at = String::new();
    let walk = Walk {
        shape: Some(shape.clone()),
        at: &mut at,
    };
    let walked = walk.deserialize(&mut serde_json::Deserializer::from_slice(text));
    walked.map_err(|error| {
        let problem = error.to_string();
        let of_field = error.classify() == Category::Data || problem.starts_with(BEYOND);
        match of_field && !at.is_empty() {
            true => Unreadable::Field { field: at, problem },
            false => Unreadable::Text(problem),
        }
    })
}

/// One value of the text.
struct Walk<'a> {
    /// `None`: no message of the contract's own.
    shape: Option<MessageDescriptor>,
    /// Where it is, in the contract's spelling; after an error, where that is.
    at: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let outside = self.at.len();
        let mut seen = BTreeSet::new();
        while let Some(said) = fields.next_key::<String>()? {
            let known = self
                .shape
                .as_ref()
                .map(|shape| (shape, field(shape, &said)));
            let name = match &known {
                Some((_, Some(field))) => field.name().to_owned(),
                Some((_, None)) | None => said,
            };
            if outside > 0 {
                self.at.push('.');
            }
            self.at.extend(name.escape_debug().take(NAME_SHOWN));
            if let Some((shape, None)) = &known {
                let problem = format!("{} has no such field", shape.name());
                return Err(A::Error::custom(problem));
            }
            if !seen.insert(name) {
                return Err(A::Error::custom("it stands twice in one object"));
            }
            fields.next_value_seed(Walk {
                shape: known.and_then(|(_, field)| message_of(&field?)),
                at: self.at,
            })?;
            self.at.truncate(outside);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let outside = self.at.len();
        for index in 0_usize.. {
            write!(self.at, "[{index}]").map_err(A::Error::custom)?;
            let item = Walk {
                shape: self.shape.clone(),
                at: self.at,
            };
            if items.next_element_seed(item)?.is_none() {
                break;
            }
            self.at.truncate(outside);
        }
        self.at.truncate(outside);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

fn field(shape: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    shape
        .get_field_by_json_name(name)
        .or_else(|| shape.get_field_by_name(name))
}

/// What the field's objects are. Of maps, and of the messages that JSON writes in a way of their
/// own, nothing is known here.
fn message_of(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(shape) if !field.is_map() && shape.package_name() == PACKAGE => Some(shape),
        _ => None,
    }
}
