//! What a browser is shown in place of a page that cannot be: a page in the dashboard's style, with
//! a way back. Whoever else asks, the dashboard's own script too, gets the problem as JSON.
//!
//! The page is the same for all that is wrong: its script asks once more, as a program would, and
//! puts the answer in as text. So here, too, no text of anybody comes into markup.

use axum::{
    extract::Request,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{Html, IntoResponse, Response},
};

use super::{act::Refused, asked::quoted};

const PAGE: &str = include_str!("assets/problem.html");

/// Around all routes.
pub async fn in_style(request: Request, next: Next) -> Response {
    let shows_page = is_page(request.uri()) && navigates(request.method(), request.headers());
    let response = next.run(request).await;
    let is_told = match response.status() {
        StatusCode::BAD_REQUEST
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED => true,
        // Under another name than ours, or with too many connections, the style would not be had.
        _ => false,
    };
    match shows_page && is_told {
        true => (response.status(), Html(PAGE)).into_response(),
        false => response,
    }
}

/// What no route answers.
pub async fn no_such_page(uri: Uri) -> Response {
    if !is_page(&uri) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let problem = format!("there is no page {} here", quoted(uri.path()));
    Refused::new(StatusCode::NOT_FOUND, problem).into_response()
}

fn is_page(uri: &Uri) -> bool {
    let path = uri.path();
    path == "/" || path == "/dashboard" || path.starts_with("/dashboard/")
}

/// Whether a browser is about to show the answer to a person. One that says nothing of it is
/// believed by what it wants.
fn navigates(method: &Method, headers: &HeaderMap) -> bool {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let wants_page = || {
        let accepted = headers.get(header::ACCEPT);
        accepted.is_some_and(|it| it.to_str().is_ok_and(|it| it.contains("text/html")))
    };
    let navigates = match said("sec-fetch-mode") {
        Some(mode) => mode == "navigate",
        None => wants_page(),
    };
    *method == Method::GET && navigates
}
