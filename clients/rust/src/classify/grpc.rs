//! gRPC codes.

use std::error::Error;

use holdoff_decision::pushback::{GrpcPushback, parse_grpc};
use tonic::{Code, Status};

use super::{Classify, transport};
use crate::outcome::{Outcome, OutcomeKind};

const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// By [`grpc()`]; `Ok` is success.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grpc;

impl<T> Classify<T, Status> for Grpc {
    fn classify(&self, result: &Result<T, Status>) -> Outcome {
        match result {
            Ok(_) => Outcome::success(),
            Err(status) => grpc(status),
        }
    }
}

/// By code, with `grpc-retry-pushback-ms` where it is there:
///
/// | code | outcome |
/// |---|---|
/// | OK | success |
/// | DEADLINE_EXCEEDED | timeout |
/// | CANCELLED | cancelled; timeout where tonic itself ran out of time (it says CANCELLED then) |
/// | RESOURCE_EXHAUSTED | throttled |
/// | UNAVAILABLE | failure; not sent where the connection was refused |
/// | UNKNOWN, INTERNAL, DATA_LOSS | failure |
/// | INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, UNAUTHENTICATED, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED | rejected |
/// | ABORTED | rejected: only a layer above can begin it anew |
///
/// A pushback in whole milliseconds is waited for, and restarts the backoff; a negative, an
/// unreadable or a repeated one means "do not retry".
pub fn grpc(status: &Status) -> Outcome {
    let outcome = Outcome::new(kind(status)).status_code(status.code() as u32);
    if outcome.kind == OutcomeKind::Success {
        return outcome;
    }
    let mut values = status.metadata().get_all(PUSHBACK).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (None, _) => outcome,
        (Some(Ok(value)), None) => match parse_grpc(value) {
            GrpcPushback::After(wait) => outcome.grpc_pushback(wait.into()),
            GrpcPushback::DoNotRetry => outcome.do_not_retry(),
        },
        // Two values contradict each other.
        (Some(Ok(_) | Err(_)), _) => outcome.do_not_retry(),
    }
}

fn kind(status: &Status) -> OutcomeKind {
    match status.code() {
        Code::Ok => OutcomeKind::Success,
        Code::DeadlineExceeded => OutcomeKind::Timeout,
        Code::Cancelled => match is_own_timeout(status) {
            true => OutcomeKind::Timeout,
            false => OutcomeKind::Cancelled,
        },
        Code::ResourceExhausted => OutcomeKind::Throttled,
        Code::Unavailable | Code::Unknown => status
            .source()
            .map_or(OutcomeKind::Failure, |cause| transport(cause).kind),
        Code::Internal | Code::DataLoss => OutcomeKind::Failure,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Aborted => OutcomeKind::Rejected,
    }
}

/// The source is lost where the status was copied; the text stays.
fn is_own_timeout(status: &Status) -> bool {
    let by_source = status
        .source()
        .is_some_and(|cause| transport(cause).kind == OutcomeKind::Timeout);
    by_source || status.message() == "Timeout expired"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_code_has_its_outcome() {
        use OutcomeKind::{Cancelled, Failure, Rejected, Success, Throttled, Timeout};
        let by_code = [
            Success, Cancelled, Failure, Rejected, Timeout, Rejected, Rejected, Rejected,
            Throttled, Rejected, Rejected, Rejected, Rejected, Failure, Failure, Failure, Rejected,
        ];
        for (code, kind) in by_code.into_iter().enumerate() {
            let status = Status::new(Code::from(code as i32), "");
            assert_eq!(grpc(&status).kind, kind, "{:?}", status.code());
            assert_eq!(grpc(&status).status_code, code as u32);
        }
    }

    #[test]
    fn tonics_own_timeout_is_a_timeout_although_it_says_cancelled() {
        let status = Status::from_error(Box::new(tonic::TimeoutExpired(())));
        assert_eq!(status.code(), Code::Cancelled);
        assert_eq!(grpc(&status).kind, OutcomeKind::Timeout);
        assert_eq!(
            grpc(&Status::cancelled("Timeout expired")).kind,
            OutcomeKind::Timeout
        );
    }

    #[test]
    fn b07_grpc_pushback_waits_or_forbids() {
        let told = |value: &str| {
            let mut status = Status::unavailable("");
            status
                .metadata_mut()
                .insert(PUSHBACK, value.parse().unwrap());
            grpc(&status)
        };
        let waits = told("1000");
        assert_eq!(waits.pushback, Some(Duration::from_secs(1)));
        assert!(waits.pushback_restarts_backoff && !waits.do_not_retry);
        for bad in ["-1", "abc", "007", "2147483648", ""] {
            assert!(told(bad).do_not_retry, "{bad}");
        }
        let absent = grpc(&Status::unavailable(""));
        assert!(absent.pushback.is_none() && !absent.do_not_retry);
    }

    #[test]
    fn b15_a_refused_connection_was_not_sent() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let mut status = Status::unavailable("tcp connect error");
        status.set_source(std::sync::Arc::new(refused));
        assert_eq!(grpc(&status).kind, OutcomeKind::NotSent);
    }
}
