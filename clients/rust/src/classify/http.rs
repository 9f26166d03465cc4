//! HTTP statuses.

use std::error::Error;

use ::http::{HeaderMap, Response, StatusCode, header};
use holdoff_decision::pushback::parse_retry_after;

use super::{Classify, transport};
use crate::{clock::wall_unix_secs, outcome::Outcome, outcome::OutcomeKind};

/// Responses by [`http()`], errors by [`transport`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Http;

impl<B, E: Error + 'static> Classify<Response<B>, E> for Http {
    fn classify(&self, result: &Result<Response<B>, E>) -> Outcome {
        match result {
            Ok(response) => http(response.status(), response.headers()),
            Err(error) => transport(error),
        }
    }
}

/// As [`Http`], for tower's boxed errors, which are no errors themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpBoxed;

impl<B> Classify<Response<B>, Box<dyn Error + Send + Sync>> for HttpBoxed {
    fn classify(&self, result: &Result<Response<B>, Box<dyn Error + Send + Sync>>) -> Outcome {
        match result {
            Ok(response) => http(response.status(), response.headers()),
            Err(error) => transport(&**error),
        }
    }
}

/// By status, with `Retry-After` as a pushback where it can be read:
///
/// | status | outcome |
/// |---|---|
/// | 1xx | ignored |
/// | 2xx, 3xx | success |
/// | 408, 504 | timeout |
/// | 421, 425 | failure |
/// | 429 | throttled |
/// | 501, 505 | rejected |
/// | other 4xx | rejected |
/// | other 5xx | failure |
///
/// `Retry-After` counts on 408, 429 and all 5xx. It is whole seconds or one of the three
/// date forms, counted from the response's `Date` where it has one; anything else is ignored.
pub fn http(status: StatusCode, headers: &HeaderMap) -> Outcome {
    http_at(status, headers, wall_unix_secs())
}

/// As [`http()`], at this time of the wall clock.
pub(crate) fn http_at(status: StatusCode, headers: &HeaderMap, wall_unix_secs: u64) -> Outcome {
    let code = status.as_u16();
    let kind = match code {
        100..=199 => OutcomeKind::Ignored,
        200..=399 => OutcomeKind::Success,
        408 | 504 => OutcomeKind::Timeout,
        421 | 425 => OutcomeKind::Failure,
        429 => OutcomeKind::Throttled,
        501 | 505 => OutcomeKind::Rejected,
        400..=499 => OutcomeKind::Rejected,
        _ => OutcomeKind::Failure,
    };
    let outcome = Outcome::new(kind).status_code(code.into());
    let may_push_back = matches!(code, 408 | 429 | 500..);
    match retry_after(headers, wall_unix_secs).filter(|_| may_push_back) {
        Some(wait) => outcome.pushback(wait),
        None => outcome,
    }
}

fn retry_after(headers: &HeaderMap, wall_unix_secs: u64) -> Option<std::time::Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let value = text(header::RETRY_AFTER)?;
    // Two values contradict each other, so neither is an instruction.
    if headers.get_all(header::RETRY_AFTER).iter().count() > 1 {
        return None;
    }
    let wait = parse_retry_after(value, text(header::DATE), wall_unix_secs);
    wait.map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn with(code: u16, headers: &[(&'static str, &'static str)]) -> Outcome {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).parse().unwrap(), (*value).parse().unwrap()))
            .collect();
        http(StatusCode::from_u16(code).unwrap(), &headers)
    }

    #[test]
    fn each_status_has_its_outcome() {
        use OutcomeKind::{Failure, Ignored, Rejected, Success, Throttled, Timeout};
        for (kind, codes) in [
            (Ignored, &[100, 103][..]),
            (Success, &[200, 204, 301, 304]),
            (Timeout, &[408, 504]),
            (Throttled, &[429]),
            (Failure, &[421, 425, 500, 502, 503, 507, 520, 599, 999]),
            (
                Rejected,
                &[400, 401, 403, 404, 409, 410, 422, 451, 501, 505],
            ),
        ] {
            for code in codes {
                assert_eq!(with(*code, &[]).kind, kind, "{code}");
                assert_eq!(with(*code, &[]).status_code, u32::from(*code));
            }
        }
    }

    #[test]
    fn b07_retry_after_is_a_pushback_in_seconds_or_against_date() {
        let wait = |headers: &[_]| with(503, headers).pushback;
        assert_eq!(
            wait(&[("retry-after", "120")]),
            Some(Duration::from_secs(120))
        );
        assert_eq!(wait(&[("retry-after", "0")]), Some(Duration::ZERO));
        let later = ("retry-after", "Wed, 21 Oct 2015 07:31:00 GMT");
        let now = ("date", "Wed, 21 Oct 2015 07:30:00 GMT");
        assert_eq!(wait(&[later, now]), Some(Duration::from_secs(60)));
        assert_eq!(wait(&[later]), Some(Duration::ZERO), "long past");
        for bad in ["-1", "+5", "1.5", "", "120, 60"] {
            assert_eq!(wait(&[("retry-after", bad)]), None, "{bad}");
        }
        assert_eq!(wait(&[("retry-after", "1"), ("retry-after", "2")]), None);
        assert_eq!(with(404, &[("retry-after", "120")]).pushback, None);
    }

    #[test]
    fn b07_a_header_never_says_do_not_retry_over_http() {
        assert!(!with(503, &[("retry-after", "-1")]).do_not_retry);
    }

    #[test]
    fn b15_a_refused_connection_was_not_sent_and_a_broken_one_may_have_been() {
        let kind = |kind: std::io::ErrorKind| {
            let result: Result<Response<()>, std::io::Error> = Err(kind.into());
            Http.classify(&result).kind
        };
        assert_eq!(
            kind(std::io::ErrorKind::ConnectionRefused),
            OutcomeKind::NotSent
        );
        assert_eq!(
            kind(std::io::ErrorKind::ConnectionReset),
            OutcomeKind::Failure
        );
        assert_eq!(kind(std::io::ErrorKind::TimedOut), OutcomeKind::Timeout);
    }
}
