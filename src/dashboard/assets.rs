//! What stands in `assets/`, inside the binary.

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use sha2::{Digest, Sha256};

use super::{Dashboard, act::Refused, row};
use crate::store::Store;

const PAGE: &str = include_str!("assets/page.html");
/// Where the token of a page goes.
const TOKEN_HERE: &str = "{token}";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type and text.
const ASSETS: [(&str, &str, &str); 13] = [
    (
        "style.css",
        "text/css; charset=utf-8",
        include_str!("assets/style.css"),
    ),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ("page.js", SCRIPT, include_str!("assets/page.js")),
    ("elements.js", SCRIPT, include_str!("assets/elements.js")),
    ("format.js", SCRIPT, include_str!("assets/format.js")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("list.js", SCRIPT, include_str!("assets/list.js")),
    ("grid.js", SCRIPT, include_str!("assets/grid.js")),
    (
        "dependency.js",
        SCRIPT,
        include_str!("assets/dependency.js"),
    ),
    ("login.js", SCRIPT, include_str!("assets/login.js")),
    ("tables.js", SCRIPT, include_str!("assets/tables.js")),
    ("actions.js", SCRIPT, include_str!("assets/actions.js")),
    ("problem.js", SCRIPT, include_str!("assets/problem.js")),
];

/// The assets with what tells a browser that it has them already.
#[derive(Debug)]
pub struct Assets {
    tags: Vec<String>,
}

impl Default for Assets {
    fn default() -> Self {
        let tag = |text: &str| {
            let hash = Sha256::digest(text.as_bytes());
            let hash: String = hash
                .iter()
                .take(8)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("\"{hash}\"")
        };
        Self {
            tags: ASSETS.iter().map(|(_, _, text)| tag(text)).collect(),
        }
    }
}

/// The page; it is the same for the list and for a dependency.
pub async fn page<S: Store>(State(dashboard): State<Dashboard<S>>) -> Html<String> {
    let now = row::millis(dashboard.inner.coordinator.now());
    Html(PAGE.replace(TOKEN_HERE, &dashboard.inner.guard.token(now)))
}

pub async fn asset<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let found = ASSETS.iter().position(|(asset, ..)| *asset == name);
    let Some(at) = found else {
        let problem = "there is no such file".to_owned();
        return Refused::new(StatusCode::NOT_FOUND, problem).into_response();
    };
    let (_, kind, text) = ASSETS[at];
    let tag = dashboard.inner.assets.tags[at].clone();
    let known = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let about = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    match known {
        true => (StatusCode::NOT_MODIFIED, about).into_response(),
        false => (about, text).into_response(),
    }
}
