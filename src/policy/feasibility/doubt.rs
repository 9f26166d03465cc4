//! What a rule answers with: what is wrong with a policy, before it is known where that is
//! written.

use holdoff_decision::Nanos;

use super::super::duration::written;
use super::super::finding::Severity;
use super::super::value::Value;

/// One thing that cannot work.
#[derive(Clone, Debug)]
pub struct Doubt {
    pub code: &'static str,
    pub severity: Severity,
    /// Paths such as `breaker.min_calls`, the most telling first.
    pub fields: &'static [&'static str],
    pub message: String,
    /// Each with its unit last in the name.
    pub numbers: Vec<(&'static str, f64)>,
    /// Changes that might end it, the best first. None of them is promised to work.
    pub candidates: Vec<Vec<Change>>,
}

/// A field's path and its new value.
pub type Change = (&'static str, Value);

impl Doubt {
    pub fn warning(code: &'static str, fields: &'static [&'static str], message: String) -> Self {
        Self {
            code,
            severity: Severity::Warning,
            fields,
            message,
            numbers: Vec::new(),
            candidates: Vec::new(),
        }
    }

    pub fn hint(code: &'static str, fields: &'static [&'static str], message: String) -> Self {
        Self {
            severity: Severity::Hint,
            ..Self::warning(code, fields, message)
        }
    }

    pub fn with(mut self, name: &'static str, number: f64) -> Self {
        self.numbers.push((name, number));
        self
    }

    pub fn span(self, name: &'static str, span: Nanos) -> Self {
        self.with(name, span.as_secs_f64())
    }

    /// Proposes changes to be made together.
    pub fn or(mut self, changes: impl Into<Vec<Change>>) -> Self {
        self.candidates.push(changes.into());
        self
    }
}

/// A number as a person reads it: three digits, whole where it is large.
pub fn shown(number: f64) -> String {
    let digits = match number.abs() {
        n if n >= 100.0 || n.fract() == 0.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 1.0 => 2,
        n if n >= 0.01 => 3,
        _ => 6,
    };
    let text = format!("{number:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A span as a person reads it: a tenth of a second at the closest, of a millisecond below one.
pub fn shown_span(span: Nanos) -> String {
    let unit = match span.0 {
        n if n >= 1_000_000_000 => 100_000_000,
        n if n >= 1_000_000 => 100_000,
        _ => 1,
    };
    written(Nanos(span.0 / unit * unit))
}

/// Down to what a person would write: two digits, a whole unit, never above `span`.
pub fn rounded_down(span: Nanos) -> Nanos {
    let unit = unit_of(span);
    Nanos(span.0 / unit * unit)
}

/// Up to what a person would write, never below `span`.
pub fn rounded_up(span: Nanos) -> Nanos {
    let unit = unit_of(span);
    Nanos(span.0.div_ceil(unit).saturating_mul(unit))
}

fn unit_of(span: Nanos) -> u64 {
    let (ms, s, minute) = (1_000_000, 1_000_000_000, 60_000_000_000);
    match span.0 {
        n if n < 100 * ms => ms,
        n if n < s => 10 * ms,
        n if n < 10 * s => 100 * ms,
        n if n < 10 * minute => s,
        _ => minute,
    }
}

/// `n` seconds; the end of the range where it is longer, zero where it is none.
pub fn seconds(n: f64) -> Nanos {
    Nanos((n * 1e9) as u64)
}

/// Down to two digits behind the point, or to six where that would leave nothing.
pub fn number_down(number: f64) -> f64 {
    let coarse = (number * 100.0).floor() / 100.0;
    match coarse > 0.0 {
        true => coarse,
        false => (number * 1e6).floor() / 1e6,
    }
}

/// Up to two digits behind the point.
pub fn number_up(number: f64) -> f64 {
    (number * 100.0 - 1e-9).ceil() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_are_numbers_that_people_write_and_on_the_safe_side() {
        let s = Nanos::from_secs;
        assert_eq!(rounded_down(Nanos(38_333_000_000)), s(38));
        assert_eq!(rounded_up(Nanos(38_333_000_000)), s(39));
        assert_eq!(rounded_up(Nanos(1)), Nanos::from_millis(1));
        assert_eq!(
            rounded_down(Nanos(2_345_000_000)),
            Nanos::from_millis(2_300)
        );
        assert_eq!(number_down(0.257), 0.25);
        assert_eq!(number_down(0.001_234_567), 0.001_234);
        assert_eq!(number_up(0.251), 0.26);
        assert_eq!(number_up(0.25), 0.25);
        assert_eq!(seconds(-1.0), Nanos::ZERO);
        assert_eq!(shown_span(Nanos(10_361_111_111)), "10s300ms");
        assert_eq!(shown_span(Nanos(111_161_111)), "111ms100us");
        assert_eq!(
            [0.0, 12.0, 12.34, 1.5, 0.05, 1234.5, 0.000_02].map(shown),
            ["0", "12", "12.3", "1.5", "0.05", "1234", "0.00002"]
        );
    }
}
