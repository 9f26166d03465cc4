//! How a result of the caller's own call is read as an outcome.
//!
//! [`Plain`] takes `Ok` for success and `Err` for failure. [`Http`] and [`Grpc`] know the
//! statuses, and read the waits that a dependency asks for. A closure does for the rest:
//! `.classify(|result: &Result<Reply, MyError>| …)`.

mod grpc;
mod http;

use std::{error::Error, io};

#[cfg(test)]
pub(crate) use self::http::http_at;
pub use self::{
    grpc::{Grpc, grpc},
    http::{Http, HttpBoxed, http},
};
use crate::{denied::CallError, outcome::Outcome};

/// Reads a result as an outcome.
pub trait Classify<T, E> {
    /// How the attempt with this result ended.
    fn classify(&self, result: &Result<T, E>) -> Outcome;
}

impl<T, E, F: Fn(&Result<T, E>) -> Outcome> Classify<T, E> for F {
    fn classify(&self, result: &Result<T, E>) -> Outcome {
        self(result)
    }
}

/// `Ok` is success, `Err` is failure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl<T, E> Classify<T, E> for Plain {
    fn classify(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::success(),
            Err(_) => Outcome::failure(),
        }
    }
}

/// For an operation that is a guarded call itself: `Ok` is success, a [`CallError`] is
/// [`CallError::outcome`] of a failure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guarded;

impl<T, E> Classify<T, CallError<E>> for Guarded {
    fn classify(&self, result: &Result<T, CallError<E>>) -> Outcome {
        match result {
            Ok(_) => Outcome::success(),
            Err(error) => error.outcome(|_| Outcome::failure()),
        }
    }
}

/// An error of a connection, by the first cause that tells:
///
/// | cause | outcome |
/// |---|---|
/// | tonic made no connection, or one was refused | not sent |
/// | timed out (I/O, tokio's or tonic's timeout) | timeout |
/// | anything else | failure |
///
/// A connection that broke is a failure and not "not sent": the request may have arrived. So
/// is an unreachable network or host, which one that stood can be told too.
pub fn transport(error: &(dyn Error + 'static)) -> Outcome {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(outcome) = of_cause(current) {
            return outcome;
        }
        cause = current.source();
    }
    Outcome::failure()
}

fn of_cause(cause: &(dyn Error + 'static)) -> Option<Outcome> {
    if cause.is::<tonic::ConnectError>() {
        return Some(Outcome::not_sent());
    }
    if cause.is::<tokio::time::error::Elapsed>() || cause.is::<tonic::TimeoutExpired>() {
        return Some(Outcome::timeout());
    }
    match cause.downcast_ref::<io::Error>()?.kind() {
        io::ErrorKind::ConnectionRefused => Some(Outcome::not_sent()),
        io::ErrorKind::TimedOut => Some(Outcome::timeout()),
        _ => None,
    }
}
