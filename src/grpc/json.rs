//! `POST /v1/acquire` and `/v1/report`: the same questions and answers as over gRPC, in
//! protobuf's JSON mapping, for shells and languages without gRPC.
//!
//! What is denied is answered 200, since a denial is an answer; an error is google.rpc.Status
//! as JSON under the HTTP status of its code. No page in a browser asks here: a body must say
//! that it is JSON, which a foreign page cannot send without asking first, and a request with an
//! `Origin` is refused, which one under a name that was rebound to this address sends.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{DefaultBodyLimit, State, rejection::BytesRejection},
    http::{Extensions, HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{MethodRouter, post},
};
use prost::Message;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{MESSAGE_MAX, admission::Guard, client, read::Defaults, span::Origin, status};
use crate::{
    access::{Access, Method, Page, Refusal},
    coordinator::{self, Coordinator},
    proto::{self, json::Unreadable},
    store::Store,
};

/// What the pages are answered from.
struct Served<S> {
    coordinator: Arc<Coordinator<S>>,
    access: Arc<Access>,
}

/// The pages, for whoever serves HTTP. Who may ask here is who may ask over gRPC.
pub fn pages<S: Store>(coordinator: &Arc<Coordinator<S>>, access: &Arc<Access>) -> Vec<Page> {
    let served = Arc::new(Served {
        coordinator: Arc::clone(coordinator),
        access: Arc::clone(access),
    });
    let page = |path, method: Method, handler: MethodRouter<Arc<Served<S>>>| {
        let handler = handler
            .fallback(only_post)
            .layer(DefaultBodyLimit::max(MESSAGE_MAX))
            .with_state(Arc::clone(&served));
        Page::new(path, method.needs(), handler).refusing_by(refused)
    };
    vec![
        page("/v1/acquire", Method::Acquire, post(acquire::<S>)),
        page("/v1/report", Method::Report, post(report::<S>)),
    ]
}

/// Who may not ask is told as gRPC tells it.
fn refused(refusal: &Refusal) -> Response {
    let status = match refusal {
        Refusal::Unauthenticated(refused) => status::unauthenticated(*refused),
        Refusal::Forbidden(forbidden) => status::forbidden(forbidden),
    };
    Refused::from(status).into_response()
}

async fn acquire<S: Store>(
    State(served): State<Arc<Served<S>>>,
    extensions: Extensions,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let answered = async {
        let request: proto::AcquireRequest = message("AcquireRequest", &headers, body)?;
        let guard = Guard::of(&served.access, &extensions)?;
        let (unsaid, origin) = (Defaults::default(), Origin::Http(&headers));
        Ok(client::acquire(&served.coordinator, &guard, &request, &unsaid, origin).await?)
    };
    written("AcquireResponse", answered.await)
}

async fn report<S: Store>(
    State(served): State<Arc<Served<S>>>,
    extensions: Extensions,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let answered = async {
        let request: proto::ReportRequest = message("ReportRequest", &headers, body)?;
        let guard = Guard::of(&served.access, &extensions)?;
        let (unsaid, origin) = (Defaults::default(), Origin::Http(&headers));
        Ok(client::report(&served.coordinator, &guard, &request, &unsaid, origin).await?)
    };
    written("ReportResponse", answered.await)
}

async fn only_post() -> Response {
    let refused = status::not_json("only POST is answered here");
    let allow = [(header::ALLOW, HeaderValue::from_static("POST"))];
    let refusal = Refused {
        http: StatusCode::METHOD_NOT_ALLOWED,
        status: refused,
    };
    (allow, refusal).into_response()
}

/// Why there is no answer; mostly the HTTP status follows from the other.
struct Refused {
    http: StatusCode,
    status: Status,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self {
            http: http_of(status.code()),
            status,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut headers = HeaderMap::new();
        if let Some(after) = retry_after(&self.status) {
            headers.insert(header::RETRY_AFTER, after);
        }
        let body = proto::json::status(&status::as_message(&self.status));
        (self.http, headers, axum::Json(body)).into_response()
    }
}

/// Whole seconds, never less than what was said (RFC 9110, 10.2.3).
fn retry_after(status: &Status) -> Option<HeaderValue> {
    let delay = status.get_details_retry_info()?.retry_delay?;
    let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    Some(HeaderValue::from(seconds))
}

fn message<M: Message + Default>(
    name: &str,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<M, Refused> {
    if headers.contains_key(header::ORIGIN) {
        return Err(status::from_a_page().into());
    }
    let said = headers.get(header::CONTENT_TYPE);
    if !said.is_some_and(is_json) {
        let said = said.map_or("none", |said| said.to_str().unwrap_or("unreadable"));
        let problem =
            format!("content-type is `{said}`; only application/json is read (curl --json)");
        return Err(Refused {
            http: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            status: status::not_json(&problem),
        });
    }
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refused {
            http: StatusCode::PAYLOAD_TOO_LARGE,
            status: status::oversize_body(MESSAGE_MAX as u64),
        },
        _ => status::not_json(&rejection.body_text()).into(),
    })?;
    let read = proto::json::read(name, &body);
    Ok(read.map_err(|unreadable| match unreadable {
        Unreadable::Text(problem) => status::not_json(&format!("the body: {problem}")),
        Unreadable::Field { field, problem } => {
            status::of(&coordinator::Refusal::invalid(field, problem))
        }
    })?)
}

/// `application/json`, with or without parameters.
fn is_json(value: &HeaderValue) -> bool {
    let essence = value.to_str().ok().and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn written<M: Message>(name: &str, answered: Result<M, Refused>) -> Response {
    match answered {
        Ok(answer) => axum::Json(proto::json::value(name, &answer)).into_response(),
        Err(refused) => refused.into_response(),
    }
}

/// As google/rpc/code.proto maps them.
fn http_of(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}
