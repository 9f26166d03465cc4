//! Why a request was refused, as a gRPC status with details (google.rpc.ErrorInfo on each,
//! BadRequest for a field, RetryInfo where a time is known).

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{
    access::{Crowded, Forbidden, Lapse, Unauthenticated},
    coordinator::Refusal,
    durable::DurableError,
    store::StoreError,
};

const DOMAIN: &str = "holdoff";
/// A status travels in headers, and clients close a connection whose headers are too large;
/// many take 8 KiB in all. Base64 and percent-encoding make it longer than it is here.
const TEXT_MAX: usize = 1_000;
const VIOLATIONS_MAX: usize = 10;
const VIOLATION_MAX: usize = 250;

/// One table from refusals to statuses.
pub fn of(refusal: &Refusal) -> Status {
    let text = shortened(refusal.to_string(), TEXT_MAX);
    let (code, reason) = match refusal {
        Refusal::Invalid { .. } => (Code::InvalidArgument, "INVALID_FIELD"),
        Refusal::BadPolicy(_) => (Code::InvalidArgument, "BAD_POLICY"),
        Refusal::UnknownNamespace(_) => (Code::NotFound, "UNKNOWN_NAMESPACE"),
        Refusal::UnknownDependency { .. } => (Code::NotFound, "UNKNOWN_DEPENDENCY"),
        Refusal::UnknownPolicy { .. } => (Code::NotFound, "UNKNOWN_POLICY"),
        Refusal::UnknownCandidate { .. } => (Code::NotFound, "UNKNOWN_CANDIDATE"),
        Refusal::TooManyCandidates(_) => (Code::FailedPrecondition, "CANDIDATE_LIMIT"),
        Refusal::NothingToClear { .. } => (Code::FailedPrecondition, "NOTHING_TO_CLEAR"),
        Refusal::Rival { .. } => (Code::Aborted, "CHANGED_MEANWHILE"),
        Refusal::NoCheck(_) => (Code::FailedPrecondition, "NO_CHECK"),
        Refusal::Store(StoreError::Unknown) => (Code::NotFound, "UNKNOWN_DEPENDENCY"),
        Refusal::Store(
            StoreError::NamespaceFull { .. }
            | StoreError::NamespacesFull { .. }
            | StoreError::Full { .. },
        ) => (Code::ResourceExhausted, "KEY_LIMIT"),
        Refusal::Store(StoreError::Unavailable(_)) => (Code::Unavailable, "STORE_UNAVAILABLE"),
        Refusal::Durable(DurableError::Busy { .. }) => {
            (Code::ResourceExhausted, "COORDINATOR_OVERLOADED")
        }
        Refusal::Durable(DurableError::Unavailable { .. } | DurableError::Closed) => {
            (Code::Unavailable, "NOT_DURABLE")
        }
        Refusal::Durable(DurableError::Unreadable { .. }) => (Code::DataLoss, "UNREADABLE"),
        Refusal::TooSlow(_) => (Code::DeadlineExceeded, "NOT_DURABLE_IN_TIME"),
        Refusal::CheckTooSlow(_) => (Code::DeadlineExceeded, "NOT_CHECKED_IN_TIME"),
    };
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    match refusal {
        Refusal::Invalid { field, problem } => {
            details.add_bad_request_violation(field.clone(), problem.clone());
        }
        Refusal::BadPolicy(findings) => {
            for finding in findings.iter().take(VIOLATIONS_MAX) {
                details.add_bad_request_violation(
                    shortened(finding.field.clone(), VIOLATION_MAX),
                    shortened(finding.to_string(), VIOLATION_MAX),
                );
            }
        }
        Refusal::Durable(DurableError::Busy { .. } | DurableError::Unavailable { .. })
        | Refusal::Store(StoreError::Unavailable(_)) => {
            details.set_retry_info(Some(Duration::from_secs(1)));
        }
        Refusal::Store(
            StoreError::NamespaceFull { .. }
            | StoreError::NamespacesFull { .. }
            | StoreError::Full { .. },
        ) => {
            details.set_retry_info(Some(Duration::from_secs(10)));
        }
        Refusal::UnknownNamespace(_)
        | Refusal::UnknownDependency { .. }
        | Refusal::UnknownPolicy { .. }
        | Refusal::UnknownCandidate { .. }
        | Refusal::TooManyCandidates(_)
        | Refusal::NothingToClear { .. }
        | Refusal::Rival { .. }
        | Refusal::NoCheck(_)
        | Refusal::Store(StoreError::Unknown)
        | Refusal::Durable(DurableError::Closed | DurableError::Unreadable { .. })
        | Refusal::CheckTooSlow(_)
        | Refusal::TooSlow(_) => {}
    }
    Status::with_error_details(code, text, details)
}

/// A request without a credential that holds.
pub fn unauthenticated(refused: Unauthenticated) -> Status {
    let reason = match refused {
        Unauthenticated::Missing => "CREDENTIAL_MISSING",
        Unauthenticated::Refused => "CREDENTIAL_REFUSED",
        Unauthenticated::TooMany => "CREDENTIALS_TOO_MANY",
    };
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    if refused == Unauthenticated::TooMany {
        details.set_retry_info(Some(Duration::from_secs(1)));
    }
    Status::with_error_details(Code::Unauthenticated, refused.to_string(), details)
}

/// A connection, a session or a watch too many of one address or principal.
pub fn crowded(crowded: Crowded) -> Status {
    let reason = match crowded {
        Crowded::Address(_) => "CONNECTION_LIMIT",
        Crowded::Principal(_) => "SESSION_LIMIT",
        Crowded::Watches(_) => "WATCH_LIMIT",
    };
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    details.set_retry_info(Some(Duration::from_secs(1)));
    Status::with_error_details(Code::ResourceExhausted, crowded.to_string(), details)
}

/// A principal that may not do this. The same whether there is such a namespace or not.
pub fn forbidden(forbidden: &Forbidden) -> Status {
    let text = shortened(forbidden.to_string(), TEXT_MAX);
    let details = ErrorDetails::with_error_info("ROLE_MISSING", DOMAIN, HashMap::new());
    Status::with_error_details(Code::PermissionDenied, text, details)
}

/// A stream whose principal may not go on with it.
pub fn lapsed(lapse: Lapse) -> Status {
    let (code, reason) = match lapse {
        Lapse::Ended => (Code::Unauthenticated, "CREDENTIAL_ENDED"),
        // A client that connects again is told what it may do now.
        Lapse::Changed => (Code::Unavailable, "CREDENTIAL_CHANGED"),
    };
    let details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    Status::with_error_details(code, lapse.to_string(), details)
}

/// A message that was too large to be read.
pub fn oversize(bytes: u64, limit: u64) -> Status {
    let text =
        format!("the message has {bytes} bytes; at most {limit} are read: send less at once");
    let limits = HashMap::from([("limit_bytes".to_owned(), limit.to_string())]);
    let details = ErrorDetails::with_error_info("MESSAGE_TOO_LARGE", DOMAIN, limits);
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

/// A body over HTTP that is longer than is read; nobody counted how much.
pub fn oversize_body(limit: u64) -> Status {
    let text = format!("the body has more than {limit} bytes: send less at once");
    let limits = HashMap::from([("limit_bytes".to_owned(), limit.to_string())]);
    let details = ErrorDetails::with_error_info("MESSAGE_TOO_LARGE", DOMAIN, limits);
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

/// A request over HTTP that a page in a browser has made.
pub fn from_a_page() -> Status {
    let text = "requests with an Origin header are not answered: pages in browsers do not ask here";
    let details = ErrorDetails::with_error_info("FROM_A_PAGE", DOMAIN, HashMap::new());
    Status::with_error_details(Code::PermissionDenied, text, details)
}

/// A request over HTTP that cannot be read as the message that it should be.
pub fn not_json(problem: &str) -> Status {
    let text = shortened(problem.to_owned(), TEXT_MAX);
    let details = ErrorDetails::with_error_info("NOT_JSON", DOMAIN, HashMap::new());
    Status::with_error_details(Code::InvalidArgument, text, details)
}

/// At most so many bytes of a text, and a sign where something is left out.
fn shortened(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
        text.push('…');
    }
    text
}

/// The same as a message, for one item of a batch.
pub fn as_message(status: &Status) -> tonic_types::Status {
    use prost::Message;
    // The details of our own statuses are an encoded google.rpc.Status; no details at all would
    // decode as one that says OK.
    let decoded = tonic_types::pb::Status::decode(status.details());
    tonic_types::pb::Status {
        code: status.code() as i32,
        message: status.message().to_owned(),
        details: decoded.map_or_else(|_| Vec::new(), |decoded| decoded.details),
    }
}
