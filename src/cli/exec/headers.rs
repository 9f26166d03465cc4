//! Finds the HTTP status and `Retry-After` in what a command prints: `curl -i`, `curl -D
//! file`, `curl -v` (`< ` before each line) and `wget -S` (blanks before each line).
//!
//! Only header blocks are looked at, from a status line to an empty line, so a body that
//! talks of `Retry-After` says nothing. Where there are several blocks (redirects, a
//! proxy, 100 Continue) the last one holds.

use std::time::Duration;

use jiff::civil::DateTime;

/// Longer lines are cut: no header that matters is so long.
const MAX_LINE: usize = 8 * 1024;

/// What the last header block said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
}

/// Takes output as it comes, in pieces of any size.
#[derive(Debug, Default)]
pub struct Scanner {
    line: Vec<u8>,
    in_block: bool,
    status: Option<u16>,
    retry_after: Option<String>,
    date: Option<String>,
}

impl Scanner {
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.line_ended(&String::from_utf8_lossy(&line));
            } else if self.line.len() < MAX_LINE {
                self.line.push(byte);
            }
        }
    }

    /// What was found, once the output has ended. `now` is used for a date where the
    /// response has no `Date` of its own.
    pub fn finish(mut self, now: jiff::Timestamp) -> Response {
        let line = std::mem::take(&mut self.line);
        self.line_ended(&String::from_utf8_lossy(&line));
        let now = self.date.as_deref().and_then(http_date).unwrap_or(now);
        Response {
            status: self.status,
            retry_after: self.retry_after.and_then(|value| retry_after(&value, now)),
        }
    }

    fn line_ended(&mut self, line: &str) {
        let line = line.trim();
        let line = line.strip_prefix('<').map_or(line, str::trim_start);
        if let Some(status) = status_line(line) {
            *self = Self {
                in_block: true,
                status: Some(status),
                ..Self::default()
            };
        } else if line.is_empty() {
            self.in_block = false;
        } else if self.in_block
            && let Some((name, value)) = line.split_once(':')
        {
            let value = || Some(value.trim().to_owned());
            if name.eq_ignore_ascii_case("retry-after") {
                self.retry_after = value();
            } else if name.eq_ignore_ascii_case("date") {
                self.date = value();
            }
        }
    }
}

/// `HTTP/1.1 503 Service Unavailable`, `HTTP/2 429`.
fn status_line(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("HTTP/")?;
    let (version, rest) = rest.split_once(' ')?;
    let plausible = version
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let digits = rest.get(..3)?;
    let ends = rest
        .get(3..)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let status: u16 = digits.parse().ok()?;
    (plausible && ends && (100..=599).contains(&status)).then_some(status)
}

/// Exactly delta-seconds or one of the three date forms of RFC 9110; all else is nothing.
pub fn retry_after(value: &str, now: jiff::Timestamp) -> Option<Duration> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX / 4)));
    }
    let at = http_date(value)?;
    let wait = at.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

fn http_date(value: &str) -> Option<jiff::Timestamp> {
    const FORMS: [&str; 3] = [
        "%a, %d %b %Y %H:%M:%S GMT",
        "%A, %d-%b-%y %H:%M:%S GMT",
        "%a %b %e %H:%M:%S %Y",
    ];
    let read = |form| DateTime::strptime(form, value).ok();
    let at = FORMS.into_iter().find_map(read)?;
    jiff::tz::TimeZone::UTC.to_timestamp(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> jiff::Timestamp {
        "1994-11-06T08:49:07Z".parse().unwrap()
    }

    fn scan(text: &str) -> Response {
        let mut scanner = Scanner::default();
        for piece in text.as_bytes().chunks(7) {
            scanner.feed(piece);
        }
        scanner.finish(now())
    }

    fn found(status: u16, seconds: Option<u64>) -> Response {
        Response {
            status: Some(status),
            retry_after: seconds.map(Duration::from_secs),
        }
    }

    #[test]
    fn a_headers_dump_gives_status_and_wait() {
        let dump = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 20\r\nX: y\r\n\r\n";
        assert_eq!(scan(dump), found(429, Some(20)));
        assert_eq!(scan("HTTP/2 503\nRetry-After:7"), found(503, Some(7)));
    }

    #[test]
    fn verbose_output_of_curl_and_wget_is_understood() {
        assert_eq!(
            scan("> GET /\n< HTTP/1.1 503 x\n< Retry-After: 3\n<\n"),
            found(503, Some(3))
        );
        assert_eq!(
            scan("  HTTP/1.1 503 x\n  Retry-After: 4\n"),
            found(503, Some(4))
        );
    }

    #[test]
    fn the_last_header_block_holds() {
        let dump = "HTTP/1.1 302 Found\nRetry-After: 9\n\nHTTP/1.1 200 OK\nA: b\n\n";
        assert_eq!(scan(dump), found(200, None));
    }

    #[test]
    fn a_body_says_nothing() {
        assert_eq!(
            scan("HTTP/1.1 200 OK\n\nRetry-After: 5\n"),
            found(200, None)
        );
        assert_eq!(
            scan("Retry-After: 5\nHTTP/x 20\nHTTP/1.1 2000\n"),
            Response::default()
        );
    }

    #[test]
    fn all_three_date_forms_are_read_and_nothing_else_is() {
        let wait = |value| retry_after(value, now()).map(|wait| wait.as_secs());
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(30));
        assert_eq!(wait("Sunday, 06-Nov-94 08:49:37 GMT"), Some(30));
        assert_eq!(wait("Sun Nov  6 08:49:37 1994"), Some(30));
        assert_eq!(
            wait("Sun, 06 Nov 1994 08:48:37 GMT"),
            Some(0),
            "the past is now"
        );
        assert_eq!(wait("0"), Some(0));
        assert!(
            wait("99999999999999999999999").is_some(),
            "far away, not nothing"
        );
        for wrong in ["", "-1", "1.5", "2 s", "soon", "+3", "1e3"] {
            assert_eq!(wait(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_date_is_counted_from_the_servers_own_clock() {
        let dump = "HTTP/1.1 503 x\nDate: Sun, 06 Nov 1994 09:00:00 GMT\n\
                    Retry-After: Sun, 06 Nov 1994 09:00:10 GMT\n\n";
        assert_eq!(scan(dump), found(503, Some(10)));
    }
}
