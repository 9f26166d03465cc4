//! What a dependency says about when to come back.
//!
//! Two headers carry it, and the same number means different things in them. HTTP's
//! `Retry-After` (RFC 9110, section 10.2.3) is a non-negative whole number of seconds or a
//! date; anything else is no instruction and is ignored. gRPC's `grpc-retry-pushback-ms`
//! (gRFC A6) is a whole number of milliseconds; anything else says "do not retry".

use crate::{Nanos, policy::Pushback};

/// What `grpc-retry-pushback-ms` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcPushback {
    /// Wait so long, then count the backoff from its first delay again.
    After(Nanos),
    DoNotRetry,
}

/// The delay before a retry: not below the pushback, and where the pushback is what binds,
/// spread upwards by `unit` of the policy's spread, so that callers that were told the
/// same time do not come back together.
pub fn floor(policy: &Pushback, delay: Nanos, pushback: Option<Nanos>, unit: f64) -> Nanos {
    match pushback {
        Some(wait) if wait >= delay && !wait.is_zero() => {
            wait.saturating_add(policy.spread.scaled(unit))
        }
        Some(_) | None => delay,
    }
}

/// Reads `Retry-After`. `date` is the response's own `Date`, from which an HTTP date is
/// counted where it can be read; otherwise `wall_unix_secs` is. A date that has passed is
/// zero. `None`: no instruction.
pub fn parse_retry_after(value: &str, date: Option<&str>, wall_unix_secs: u64) -> Option<Nanos> {
    let value = value.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(value.parse().map_or(Nanos::MAX, Nanos::from_secs));
    }
    let wall = i64::try_from(wall_unix_secs).unwrap_or(i64::MAX);
    let then = parse_http_date(value, wall)?;
    let now = date
        .and_then(|date| parse_http_date(date.trim_matches([' ', '\t']), wall))
        .unwrap_or(wall);
    Some(Nanos::from_secs(
        u64::try_from(then.saturating_sub(now)).unwrap_or(0),
    ))
}

/// Reads `grpc-retry-pushback-ms`: decimal, no sign, no leading zero, at most 2^31 - 1.
pub fn parse_grpc(value: &str) -> GrpcPushback {
    let canonical = value == "0" || !value.starts_with('0');
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse::<u32>() {
        Ok(millis) if canonical && digits && millis <= i32::MAX as u32 => {
            GrpcPushback::After(Nanos::from_millis(u64::from(millis)))
        }
        Ok(_) | Err(_) => GrpcPushback::DoNotRetry,
    }
}

/// Reads one of the three forms of RFC 9110, section 5.6.7, as seconds since 1970.
fn parse_http_date(value: &str, wall: i64) -> Option<i64> {
    let (day_name, rest) = value.split_once([',', ' '])?;
    if value.as_bytes().get(day_name.len()) == Some(&b',') {
        let rest = rest.strip_prefix(' ')?.strip_suffix(" GMT")?;
        match SHORT_DAYS.contains(&day_name) {
            true => parse_imf(rest),
            false => LONG_DAYS
                .contains(&day_name)
                .then(|| parse_rfc850(rest, wall))?,
        }
    } else {
        SHORT_DAYS
            .contains(&day_name)
            .then(|| parse_asctime(rest))?
    }
}

const SHORT_DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// On average, in the Gregorian calendar.
const SECONDS_IN_A_YEAR: i64 = 31_556_952;

/// `21 Oct 2015 07:28:00`
fn parse_imf(text: &str) -> Option<i64> {
    let mut parts = text.split(' ');
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let none_left = parts.next().is_none();
    none_left.then(|| instant(number(year, 4)?, month, number(day, 2)?, time))?
}

/// `21-Oct-15 07:28:00`; a year that would lie more than 50 years ahead is a century back.
fn parse_rfc850(text: &str, wall: i64) -> Option<i64> {
    let (date, time) = text.split_once(' ')?;
    let mut parts = date.split('-');
    let (day, month, year) = (parts.next()?, parts.next()?, number(parts.next()?, 2)?);
    let none_left = parts.next().is_none();
    let this_year = 1970 + wall / SECONDS_IN_A_YEAR;
    let year = if 2000 + year > this_year + 50 {
        1900 + year
    } else {
        2000 + year
    };
    none_left.then(|| instant(year, month, number(day, 2)?, time))?
}

/// `Oct 21 07:28:00 2015`, a day below ten padded by a space.
fn parse_asctime(text: &str) -> Option<i64> {
    let (month, rest) = text.split_once(' ')?;
    let (day, rest) = rest.split_at_checked(2)?;
    let day = match day.strip_prefix(' ') {
        Some(digit) => number(digit, 1)?,
        None => number(day, 2)?,
    };
    let (time, year) = rest.strip_prefix(' ')?.split_once(' ')?;
    instant(number(year, 4)?, month, day, time)
}

/// A number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

fn instant(year: i64, month: &str, day: i64, time: &str) -> Option<i64> {
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let mut parts = time.split(':');
    let (hour, minute, second) = (
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
    );
    let in_range = (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && parts.next().is_none();
    in_range
        .then(|| days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts days of the Gregorian calendar with years that begin in March, so that the leap
/// day is the last one of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wed, 21 Oct 2015 07:28:00 GMT
    const WALL: u64 = 1_445_412_480;

    fn seconds(value: &str, date: Option<&str>) -> Option<u64> {
        parse_retry_after(value, date, WALL).map(|wait| wait.0 / 1_000_000_000)
    }

    #[test]
    fn b07_retry_after_is_digits_or_one_of_three_dates() {
        for (value, expected) in [
            ("120", Some(120)),
            (" 120 ", Some(120)),
            ("0", Some(0)),
            ("-1", None),
            ("+5", None),
            ("1.5", None),
            ("", None),
            ("120, 60", None),
            ("１２０", None),
            ("Wed, 21 Oct 2015 07:29:00 GMT", Some(60)),
            ("Wednesday, 21-Oct-15 07:29:00 GMT", Some(60)),
            ("Wed Oct 21 07:29:00 2015", Some(60)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
            ("Wed, 21 Oct 2015 07:29:00", None),
            ("Wed, 31 Feb 2016 07:29:00 GMT", None),
            ("Wed, 21 Oct 2015 25:29:00 GMT", None),
            ("21 Oct 2015 07:29:00 GMT", None),
            ("2015-10-21T07:29:00Z", None),
            ("soon", None),
        ] {
            assert_eq!(seconds(value, None), expected, "{value:?}");
        }
    }

    #[test]
    fn b07_a_date_is_counted_from_the_date_of_the_response() {
        let value = "Wed, 21 Oct 2015 07:31:00 GMT";
        assert_eq!(
            seconds(value, Some("Wed, 21 Oct 2015 07:30:00 GMT")),
            Some(60)
        );
        assert_eq!(seconds(value, Some("yesterday")), Some(180));
    }

    #[test]
    fn b07_grpc_pushback_that_cannot_be_read_says_do_not_retry() {
        assert_eq!(parse_grpc("1000"), GrpcPushback::After(Nanos::from_secs(1)));
        assert_eq!(parse_grpc("0"), GrpcPushback::After(Nanos::ZERO));
        for bad in ["-1", "abc", "007", "2147483648", "", "+5", " 5"] {
            assert_eq!(parse_grpc(bad), GrpcPushback::DoNotRetry, "{bad:?}");
        }
    }

    #[test]
    fn seconds_beyond_every_clock_are_the_longest_wait() {
        assert_eq!(
            parse_retry_after("99999999999999999999999", None, 0),
            Some(Nanos::MAX)
        );
    }

    #[test]
    fn a_pushback_is_a_floor_and_spreads_upwards_only_where_it_binds() {
        let policy = Pushback::default();
        let drawn = Nanos::from_millis(400);
        assert_eq!(floor(&policy, drawn, Some(Nanos::ZERO), 0.5), drawn);
        assert_eq!(floor(&policy, drawn, None, 0.5), drawn);
        let told = Some(Nanos::from_secs(120));
        assert_eq!(
            floor(&policy, drawn, told, 0.5),
            Nanos::from_millis(120_500)
        );
    }

    #[test]
    fn days_are_counted_over_leap_years() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(2000, 3, 1), 11_017);
        assert_eq!(days_since_1970(2024, 2, 29), 19_782);
    }
}
