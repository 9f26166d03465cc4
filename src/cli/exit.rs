//! How a command ends. Scripts read the exit code, so the table of codes is a contract:
//! 0 done, 1 the answer is no, 2 wrong use, 3 the service could not be asked.

use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::escape::escape;

/// A command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Done,
    /// 1: the answer is no, and it has been printed.
    No,
    /// The exit code of the command that `exec` ran.
    Command(u8),
}

/// A command that could not do what it was asked.
#[derive(Debug, Error)]
pub enum Failure {
    /// 1: the service, or a file, says no.
    #[error("{0}")]
    No(String),
    /// 2: the command line, the settings or a value is wrong.
    #[error("{0}")]
    Usage(String),
    /// 3: nothing was decided.
    #[error("no answer from {server}: {cause}")]
    Unreachable { server: String, cause: String },
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Command(code) => code,
        }
    }
}

impl Failure {
    pub fn code(&self) -> u8 {
        match self {
            Self::No(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable { .. } => 3,
        }
    }

    /// One table from gRPC's codes to exit codes.
    pub fn from_status(server: &str, status: &Status) -> Self {
        let text = describe(status);
        match status.code() {
            Code::ResourceExhausted if is_oversize(status) => Self::Usage(text),
            Code::InvalidArgument if is_bad_document(status) => Self::No(text),
            Code::InvalidArgument | Code::OutOfRange => Self::Usage(text),
            Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::Aborted => Self::No(text),
            Code::Unauthenticated if has_reason(status, "CREDENTIAL_MISSING") => Self::No(format!(
                "{text} (--token-file or HOLDOFF_TOKEN; --cert and --key)"
            )),
            Code::Unauthenticated => Self::No(text),
            // tonic reports a deadline of its own as CANCELLED; what is shed or broken
            // inside decided nothing either.
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => Self::Unreachable {
                server: server.to_owned(),
                cause: match wrong_port(status) {
                    Some(hint) => hint.to_owned(),
                    None => format!("{}: {text}", code_name(status.code())),
                },
            },
        }
    }
}

/// What was sent is larger than the service reads: it would never be taken.
fn is_oversize(status: &Status) -> bool {
    has_reason(status, "MESSAGE_TOO_LARGE")
}

fn has_reason(status: &Status, reason: &str) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| info.reason == reason)
}

/// What the transport makes of somebody who speaks no gRPC, or another way than we do.
fn wrong_port(status: &Status) -> Option<&'static str> {
    let message = status.message();
    if message.contains("grpc-status header missing") {
        return Some(
            "it speaks HTTP and no gRPC; the port for gRPC is `serve --listen`, not `--http`",
        );
    }
    (status.code() == Code::Internal && message.contains("h2 protocol error"))
        .then_some("it speaks no gRPC without TLS; with TLS its URL begins with https://")
}

/// A policy was refused for what is written in it: the answer is no, as of a file.
fn is_bad_document(status: &Status) -> bool {
    let details = status.get_error_details();
    let of_policy = details
        .error_info()
        .is_some_and(|it| it.reason == "BAD_POLICY");
    let violations = details.bad_request().map(|it| &it.field_violations);
    let mut fields = violations.into_iter().flatten().map(|it| &it.field);
    of_policy || fields.any(|field| field == "document")
}

/// The message of a status, with the fields it names, fit for a terminal.
fn describe(status: &Status) -> String {
    let mut text = escape(status.message()).into_owned();
    let violations = status
        .get_details_bad_request()
        .map(|details| details.field_violations)
        .unwrap_or_default();
    for violation in violations {
        // Both may have been cut.
        let told = violation.description.trim_end_matches('…');
        if !status.message().contains(told) {
            let (field, what) = (escape(&violation.field), escape(&violation.description));
            text.push_str(&format!("\n  {field}: {what}"));
        }
    }
    if text.is_empty() {
        text.push_str(code_name(status.code()));
    }
    text
}

/// A gRPC code as the documents write it.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_end_has_its_exit_code() {
        let of = |code| Failure::from_status("http://h:1", &Status::new(code, "text")).code();
        assert_eq!(Exit::Done.code(), 0);
        assert_eq!(Exit::No.code(), 1);
        assert_eq!(of(Code::NotFound), 1);
        assert_eq!(of(Code::InvalidArgument), 2);
        assert_eq!(of(Code::Unavailable), 3);
        assert_eq!(of(Code::Cancelled), 3, "tonic's word for a missed deadline");
        assert_eq!(of(Code::ResourceExhausted), 3);
        let info = tonic_types::ErrorDetails::with_error_info(
            "MESSAGE_TOO_LARGE",
            "holdoff",
            std::collections::HashMap::new(),
        );
        let oversize = Status::with_error_details(Code::ResourceExhausted, "text", info);
        assert_eq!(Failure::from_status("http://h:1", &oversize).code(), 2);
    }

    #[test]
    fn the_usual_wrong_turns_are_told_with_the_way_back() {
        let of = |code, text: &str| Failure::from_status("http://h:1", &Status::new(code, text));
        let http = "grpc-status header missing, mapped from HTTP status code 404";
        let http = of(Code::Unimplemented, http);
        assert_eq!(http.code(), 3);
        assert!(http.to_string().contains("`serve --listen`"), "{http}");
        let tls = of(Code::Internal, "h2 protocol error: http2 error");
        assert!(tls.to_string().contains("https://"), "{tls}");
        let missing = tonic_types::ErrorDetails::with_error_info(
            "CREDENTIAL_MISSING",
            "holdoff",
            std::collections::HashMap::new(),
        );
        let missing = Status::with_error_details(Code::Unauthenticated, "no credential", missing);
        let missing = Failure::from_status("http://h:1", &missing);
        assert_eq!(missing.code(), 1);
        assert!(missing.to_string().contains("--token-file"), "{missing}");
    }

    #[test]
    fn a_refused_document_is_a_no_and_is_told_once_however_long() {
        let long = format!("API:1:2: namespaces.default: {}", "x".repeat(300));
        let mut details = tonic_types::ErrorDetails::with_error_info(
            "BAD_POLICY",
            "holdoff",
            std::collections::HashMap::new(),
        );
        details.add_bad_request_violation("namespaces.default", format!("{}…", &long[..250]));
        let refused = |details: tonic_types::ErrorDetails| {
            let text = format!("the policy is refused: {long}");
            let status = Status::with_error_details(Code::InvalidArgument, text, details);
            Failure::from_status("http://h:1", &status)
        };
        let failure = refused(details);
        assert_eq!(failure.code(), 1);
        assert_eq!(failure.to_string().matches("API:1:2").count(), 1);
        let of_field = |field: &str| {
            refused(tonic_types::ErrorDetails::with_bad_request_violation(
                field, "long",
            ))
            .code()
        };
        assert_eq!((of_field("document"), of_field("name")), (1, 2));
    }

    #[test]
    fn an_error_from_the_service_cannot_steer_the_terminal() {
        let status = Status::invalid_argument("dependency \u{1b}[2J: refused");
        let text = Failure::from_status("s", &status).to_string();
        assert_eq!(text, "dependency \\u{1b}[2J: refused");
    }
}
