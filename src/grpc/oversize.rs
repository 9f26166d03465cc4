//! A message above the limit is RESOURCE_EXHAUSTED, and says what the limit is.
//!
//! tonic refuses it before any handler of ours sees it, and calls it OUT_OF_RANGE. A unary
//! request that is refused so is answered by headers alone, which are rewritten here; a session
//! hands its own errors over. What is too large to be sent is not among these: that would be our
//! fault, not the caller's.

use http::Response;
use tonic::{Code, Status, body::Body};

use super::status;

const STATUS_HEADER: &str = "grpc-status";

/// An answer, unless it is tonic's refusal of a message that is too large.
pub fn named_in(response: Response<Body>) -> Response<Body> {
    // An answer with a body has its status behind it.
    if !response.headers().contains_key(STATUS_HEADER) {
        return response;
    }
    let refusal = Status::from_header_map(response.headers()).and_then(|status| read(&status));
    match refusal {
        Some(found) => status::oversize(found.bytes, found.limit).into_http(),
        None => response,
    }
}

/// The same for the error that ends a stream.
pub fn named(error: Status) -> Status {
    match read(&error) {
        Some(found) => status::oversize(found.bytes, found.limit),
        None => error,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Oversize {
    bytes: u64,
    limit: u64,
}

/// `None`: it is another error.
fn read(status: &Status) -> Option<Oversize> {
    let is_read = status.code() == Code::OutOfRange
        && (status.message()).contains("decoded message length too large");
    let mut numbers = status
        .message()
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok());
    let (bytes, limit) = (numbers.next()?, numbers.next()?);
    is_read.then_some(Oversize { bytes, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TONICS: &str =
        "Error, decoded message length too large: found 300009 bytes, the limit is: 262144 bytes";

    #[test]
    fn only_the_refusal_of_a_large_message_is_renamed() {
        let renamed = named(Status::out_of_range(TONICS));
        assert_eq!(renamed.code(), Code::ResourceExhausted);
        for other in [
            Status::out_of_range("page 7 of 3, the decoded message says"),
            Status::out_of_range(TONICS.replace("decoded", "encoded")),
            Status::internal(TONICS),
        ] {
            let (code, text) = (other.code(), other.message().to_owned());
            let same = named(other);
            assert_eq!((same.code(), same.message()), (code, &*text));
        }
    }
}
