//! A single value of a policy: how it is written, what is allowed, how it is read.

use std::fmt;

use holdoff_decision::Nanos;

use super::duration;
use super::tree::{Key, Node, Tree};

/// A value as it can be written in a policy file. `Display` writes it so that it is read
/// back as the same value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Span(Nanos),
    Count(u32),
    Number(f64),
    Flag(bool),
    Word(&'static str),
    /// `proportional(0.2)`.
    Proportional(f64),
}

/// One way in which a field may be written. Range ends are allowed values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Words(&'static [&'static str]),
    Span(Nanos, Nanos),
    Count(u32, u32),
    /// A [`Form::Count`] beside which a span could stand.
    Calls(u32, u32),
    Number(f64, f64),
    /// In parts per million; what is written within the range is rounded to them, but never to
    /// nothing.
    Share(u32, u32),
    Flag,
    Proportional,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => f.write_str(&duration::written(*span)),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Word(word) => f.write_str(word),
            Self::Proportional(share) => write!(f, "proportional({share})"),
        }
    }
}

/// Reads `tree` in the first of the `forms` that takes it.
pub fn read(forms: &[Form], tree: &Tree) -> Option<Value> {
    forms.iter().find_map(|form| form.read(tree))
}

/// What the `forms` allow, as a sentence's end.
pub fn allowed(forms: &[Form]) -> String {
    let all: Vec<String> = forms.iter().map(Form::to_string).collect();
    all.join(", or ")
}

impl Form {
    fn read(&self, tree: &Tree) -> Option<Value> {
        match (self, tree) {
            (Self::Words(words), Tree::Text(text)) => words
                .iter()
                .find(|word| *word == text)
                .map(|word| Value::Word(word)),
            (Self::Span(least, most), Tree::Text(text)) => duration::parse(text)
                .filter(|span| (least..=most).contains(&span))
                .map(Value::Span),
            (Self::Span(least, _), Tree::Number(0.0)) if least.is_zero() => {
                Some(Value::Span(Nanos::ZERO))
            }
            (Self::Count(least, most) | Self::Calls(least, most), Tree::Number(number)) => {
                let whole = number.fract() == 0.0;
                let fits = (f64::from(*least)..=f64::from(*most)).contains(number);
                (whole && fits).then_some(Value::Count(*number as u32))
            }
            (Self::Number(least, most), Tree::Number(number)) => {
                // Adding zero makes of -0 what everybody means by it.
                (least..=most)
                    .contains(&number)
                    .then_some(Value::Number(number + 0.0))
            }
            (Self::Share(least, most), Tree::Number(number)) => {
                let (least, most) = (f64::from(*least) / 1e6, f64::from(*most) / 1e6);
                let fits = (least..=most).contains(number) && !(0.0 < *number && *number < 1e-6);
                fits.then_some(Value::Number((number * 1e6).round() / 1e6 + 0.0))
            }
            (Self::Flag, Tree::Flag(flag)) => Some(Value::Flag(*flag)),
            (Self::Proportional, tree) => proportional(tree).map(Value::Proportional),
            _ => None,
        }
    }
}

fn proportional(tree: &Tree) -> Option<f64> {
    let share = match tree {
        Tree::Text(text) => text
            .strip_prefix("proportional(")?
            .strip_suffix(')')?
            .trim()
            .parse()
            .ok()?,
        Tree::Map(entries) => match entries.as_slice() {
            [
                (
                    Key { text, .. },
                    Node {
                        value: Tree::Number(share),
                        ..
                    },
                ),
            ] if text == "proportional" => *share,
            _ => return None,
        },
        _ => return None,
    };
    (0.0..=1.0).contains(&share).then_some(share + 0.0)
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(&words.join(", ")),
            Self::Span(least, most) => {
                let (least, most) = (duration::written(*least), duration::written(*most));
                write!(
                    f,
                    "a duration from {least} to {most}, such as 150ms, 2s or 1m30s"
                )
            }
            Self::Count(least, most) => write!(f, "{least} to {most}"),
            Self::Calls(least, most) => write!(f, "a number of calls from {least} to {most}"),
            Self::Number(least, most) => write!(f, "{least} to {most}"),
            Self::Share(0, most) => write!(f, "0, or 0.000001 to {}", f64::from(*most) / 1e6),
            Self::Share(least, most) => {
                write!(
                    f,
                    "{} to {}",
                    f64::from(*least) / 1e6,
                    f64::from(*most) / 1e6
                )
            }
            Self::Flag => f.write_str("true or false"),
            Self::Proportional => f.write_str("proportional(0) to proportional(1)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Nanos = Nanos::from_secs(86_400);

    #[test]
    fn not_a_number_and_infinity_are_in_no_range() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1] {
            for form in [
                Form::Number(0.0, 1e6),
                Form::Share(0, 10_000_000),
                Form::Count(0, 9),
                Form::Span(Nanos::ZERO, DAY),
            ] {
                assert_eq!(read(&[form], &Tree::Number(bad)), None, "{form:?} {bad}");
            }
        }
    }

    #[test]
    fn a_share_is_rounded_within_its_range_and_never_into_it() {
        for (least, most) in [(0, 10_000_000), (1, 1_000_000)] {
            let form = [Form::Share(least, most)];
            let read = |number| read(&form, &Tree::Number(number));
            let end = f64::from(most) / 1e6;
            assert_eq!(read(end), Some(Value::Number(end)));
            assert_eq!(read(1e-6), Some(Value::Number(1e-6)));
            assert_eq!(read(0.333_333_333), Some(Value::Number(0.333_333)));
            assert_eq!(read(0.0).is_some(), least == 0);
            assert_eq!(read(-0.0), read(0.0));
            for bad in [
                end + 1e-7,
                end + 1e-9,
                -1e-9,
                -1e-7,
                1e-7,
                9.99e-7,
                f64::MIN_POSITIVE,
            ] {
                assert_eq!(read(bad), None, "{bad}");
            }
        }
        assert_eq!(
            allowed(&[Form::Share(0, 10_000_000)]),
            "0, or 0.000001 to 10"
        );
        assert_eq!(allowed(&[Form::Share(1, 1_000_000)]), "0.000001 to 1");
    }

    #[test]
    fn a_share_that_rounds_to_nothing_is_not_above_nothing() {
        let above_zero = [Form::Share(1, 1_000_000)];
        assert_eq!(read(&above_zero, &Tree::Number(1e-7)), None);
        assert_eq!(
            read(&above_zero, &Tree::Number(1e-6)),
            Some(Value::Number(1e-6))
        );
        assert_eq!(
            read(&above_zero, &Tree::Number(1.0)),
            Some(Value::Number(1.0))
        );
    }

    #[test]
    fn a_bare_number_is_no_span_but_zero_is() {
        let span = [Form::Span(Nanos::ZERO, DAY)];
        assert_eq!(
            read(&span, &Tree::Number(0.0)),
            Some(Value::Span(Nanos::ZERO))
        );
        assert_eq!(read(&span, &Tree::Number(5.0)), None);
        assert_eq!(read(&[Form::Span(Nanos(1), DAY)], &Tree::Number(0.0)), None);
    }

    #[test]
    fn proportional_jitter_is_text_or_a_map() {
        let forms = [Form::Words(&["full"]), Form::Proportional];
        let text = |t: &str| read(&forms, &Tree::Text(t.into()));
        assert_eq!(text("proportional(0.2)"), Some(Value::Proportional(0.2)));
        assert_eq!(text("full"), Some(Value::Word("full")));
        for bad in [
            "proportional",
            "proportional(2)",
            "proportional(nan)",
            "proportional(-1)",
            "half",
        ] {
            assert_eq!(text(bad), None, "{bad}");
        }
        let map = super::super::tree::parse("f", "{proportional: 0.5}")
            .unwrap()
            .unwrap();
        assert_eq!(read(&forms, &map.value), Some(Value::Proportional(0.5)));
    }

    #[test]
    fn counts_are_whole() {
        let forms = [Form::Count(1, 1_000)];
        assert_eq!(read(&forms, &Tree::Number(3.0)), Some(Value::Count(3)));
        for bad in [0.0, 1.5, 1_001.0] {
            assert_eq!(read(&forms, &Tree::Number(bad)), None, "{bad}");
        }
    }
}
