//! Durations, as people write and read them and as the wire carries them.

use std::time::Duration;

use prost_types::Duration as Wire;

use crate::policy::duration;

/// Reads `150ms`, `2s`, `1m30s`; a bare `0` too: as in a policy.
///
/// # Errors
/// Says what may be written.
pub fn parse(text: &str) -> Result<Duration, String> {
    let span = duration::parse(text).map(Duration::from);
    span.ok_or_else(|| "write 150ms, 2s or 1m30s; units are ns, us, ms, s, m, h and d".to_owned())
}

/// Reads a duration above zero.
///
/// # Errors
/// Says what is wrong with the text.
pub fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be above 0".to_owned()),
        span => Ok(span),
    }
}

/// Onto the wire; saturating at what the wire can carry.
pub fn to_wire(span: Duration) -> Wire {
    Wire {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}

/// From the wire; what is negative is zero, since no time of ours may be.
pub fn from_wire(span: &Wire) -> Duration {
    let seconds = u64::try_from(span.seconds).unwrap_or(0);
    let nanos = u32::try_from(span.nanos).unwrap_or(0).min(999_999_999);
    Duration::new(seconds, nanos)
}

/// Two units at most, rounded down: `340 ms`, `1.8 s`, `4 m 12 s`, `3 d 4 h`.
pub fn human(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span < Duration::from_millis(1) => match span.as_micros() {
            0 => "0 s".to_owned(),
            micros => format!("{micros} µs"),
        },
        0 => format!("{} ms", span.as_millis()),
        1..=9 => format!("{}.{} s", seconds, span.subsec_millis() / 100),
        10..=59 => format!("{seconds} s"),
        60..=3_599 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..=86_399 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// [`human`], or a dash for what is absent.
pub fn human_or_dash(span: Option<&Wire>) -> String {
    span.map_or_else(|| "-".to_owned(), |span| human(from_wire(span)))
}

fn two(big: u64, big_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{big} {big_unit}")
    } else {
        format!("{big} {big_unit} {small} {small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_two_units_at_most() {
        let shown = |ms| human(Duration::from_millis(ms));
        assert_eq!(shown(0), "0 s");
        assert_eq!(human(Duration::from_micros(85)), "85 µs");
        assert_eq!(shown(340), "340 ms");
        assert_eq!(shown(1_880), "1.8 s");
        assert_eq!(shown(59_999), "59 s");
        assert_eq!(shown(252_000), "4 m 12 s");
        assert_eq!(shown(3_600_000), "1 h");
        assert_eq!(shown(90_061_000), "1 d 1 h");
    }

    #[test]
    fn what_is_written_is_what_is_sent() {
        let sent = to_wire(parse("1m30s500ms").unwrap());
        assert_eq!((sent.seconds, sent.nanos), (90, 500_000_000));
        assert_eq!(from_wire(&sent), Duration::from_millis(90_500));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert!(parse("fast").unwrap_err().contains("write 150ms"));
        assert!(parse_positive("0s").is_err());
        // `M` is a month elsewhere, and who writes it in a hurry means minutes.
        for bad in ["5M", "1month", "1w", "1year", "90", "-1s", ""] {
            assert!(parse(bad).is_err() && parse_positive(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_negative_span_from_the_wire_is_zero() {
        assert_eq!(
            from_wire(&Wire {
                seconds: -3,
                nanos: -1
            }),
            Duration::ZERO
        );
    }
}
