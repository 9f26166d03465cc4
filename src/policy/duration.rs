//! Spans of time as they are written in a policy: `150ms`, `2s`, `1m30s`, `0`.
//!
//! Units are `ns`, `us`, `ms`, `s`, `m`, `h` and `d`. Words, weeks and longer are refused:
//! in the library that reads the rest `M` is a month, and nobody means that.

use holdoff_decision::Nanos;

const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// `None` where it is no span of time: negative, without a unit, or longer than 584 years.
pub fn parse(text: &str) -> Option<Nanos> {
    if text == "0" {
        return Some(Nanos::ZERO);
    }
    let known = |unit: &str| unit == "d" || UNITS.iter().any(|&(name, _)| name == unit);
    let mut units = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|unit| !unit.is_empty());
    // Every piece ends in a unit, so `1 2s` is not read as twelve seconds.
    let whole = text
        .split(' ')
        .all(|piece| piece.ends_with(|c: char| c.is_ascii_alphabetic()));
    if !whole || !units.all(known) {
        return None;
    }
    let duration = humantime::parse_duration(text).ok()?;
    u64::try_from(duration.as_nanos()).ok().map(Nanos)
}

/// Exact, in the largest units that fit: `1m30s`. [`parse`] reads it back.
pub fn written(span: Nanos) -> String {
    if span.is_zero() {
        return "0s".into();
    }
    let mut rest = span.0;
    let mut text = String::new();
    for (unit, size) in UNITS {
        if rest >= size {
            text += &format!("{}{unit}", rest / size);
            rest %= size;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_exactly() {
        for n in [
            0,
            1,
            999,
            1_001,
            150_000_000,
            90_000_000_000,
            86_400_000_000_000,
            7_384_005_006_007,
            u64::MAX,
        ] {
            let text = written(Nanos(n));
            assert_eq!(parse(&text), Some(Nanos(n)), "{text}");
        }
    }

    #[test]
    fn spans_are_read_in_the_usual_ways() {
        let millis = |n| Some(Nanos::from_millis(n));
        assert_eq!(parse("150ms"), millis(150));
        assert_eq!(parse("2s"), millis(2_000));
        assert_eq!(parse("1m30s"), millis(90_000));
        assert_eq!(parse("1m 30s"), millis(90_000));
        assert_eq!(parse("1.5s"), millis(1_500));
        assert_eq!(parse("1d"), millis(86_400_000));
        assert_eq!(parse("0"), millis(0));
        assert_eq!(parse("0s"), millis(0));
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for bad in [
            "",
            "5",
            "-1s",
            "1 2s",
            "1M",
            "1month",
            "2 years",
            "1w",
            "s",
            "1s5",
            "soon",
            "1e3s",
            "٣s",
            "99999999999h",
            "+1s",
            "1s\n",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
