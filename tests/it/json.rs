//! The questions of clients over HTTP: the very answers that gRPC gives, and errors that a
//! shell can read.
//!
//! The examples of `docs/http.md` are run as they stand there, by a shell with curl.

use std::{net::TcpListener, sync::Arc};

use holdoff::{
    proto::json,
    server::{Metrics, http},
    settings::MetricsDependencies,
};
use holdoff_client::proto::{self, BreakerState, OutcomeKind};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

use crate::harness::{Client, Service, Setup, first, outcome, policy_of_d, retry};

/// The HTTP side of a service, for as long as it lasts.
struct Http {
    address: std::net::SocketAddr,
    _stop: watch::Sender<bool>,
}

struct Answered {
    status: u16,
    headers: String,
    body: Value,
}

impl Http {
    fn of(service: &Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let coordinator = Arc::clone(&service.coordinator);
        let metrics = Metrics::new(coordinator, MetricsDependencies::default(), 16);
        tokio::spawn(http::serve(Some(listener), 16, Arc::new(metrics), stopped));
        Self {
            address,
            _stop: stop,
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Answered {
        let body = body.to_string();
        self.send(
            "POST",
            path,
            "application/json; charset=utf-8",
            body.as_bytes(),
        )
        .await
    }

    async fn send(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Answered {
        let mut peer = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\
             content-type: {content_type}\r\n\r\n",
            self.address,
            body.len()
        );
        peer.write_all(head.as_bytes()).await.unwrap();
        // A body that is too long is refused before it was read.
        let _ = peer.write_all(body).await;
        let mut text = Vec::new();
        let _ = peer.read_to_end(&mut text).await;
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Answered {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            headers: head.to_lowercase(),
            body: serde_json::from_str(body).unwrap_or_default(),
        }
    }
}

impl Answered {
    /// Google's shape of an error, with what every error of holdoff has.
    #[track_caller]
    fn assert_refused(&self, http: u16, code: i64, reason: &str) -> &str {
        assert_eq!(self.status, http, "{}", self.body);
        assert_eq!(self.body["code"], code, "{}", self.body);
        let details = self.body["details"].as_array().unwrap();
        let info = details
            .iter()
            .find(|detail| detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo");
        assert_eq!(info.unwrap()["reason"], reason);
        self.body["message"].as_str().unwrap()
    }
}

async fn pair(policies: &str) -> (Service, Http, Service, Client) {
    let setup = || Setup {
        policies,
        ..Setup::default()
    };
    let over_http = Service::start_with(setup()).await;
    let http = Http::of(&over_http);
    let over_grpc = Service::start_with(setup()).await;
    let client = over_grpc.client().await;
    (over_http, http, over_grpc, client)
}

#[tokio::test]
async fn http_answers_what_grpc_answers() {
    let policy = policy_of_d("{breaker: {detect: window, window: 4, min_calls: 2}}");
    let (_a, http, _b, mut grpc) = pair(&policy).await;

    let granted = http
        .post("/v1/acquire", &json!({"dependency": "d", "attempt": 1}))
        .await;
    let same = grpc.ask(first("d")).await;
    assert_eq!(granted.status, 200);
    assert_eq!(granted.body, json::value("AcquireResponse", &same));
    assert_eq!(granted.body["grant"]["delay"], "0s");

    let permit = &granted.body["grant"]["permit"];
    let again = http
        .post(
            "/v1/acquire",
            &json!({
                "dependency": "d", "attempt": 2, "safety": "SAFETY_IDEMPOTENT",
                "previous": {"permit": permit, "outcome": {"kind": "OUTCOME_KIND_FAILURE"}},
            }),
        )
        .await;
    let bytes = match same.verdict {
        Some(proto::acquire_response::Verdict::Grant(grant)) => grant.permit,
        other => panic!("{other:?}"),
    };
    let same = grpc.ask(retry("d", 2, &bytes, OutcomeKind::Failure)).await;
    assert_eq!(again.body, json::value("AcquireResponse", &same));
    assert_eq!(again.body["previousResult"], "REPORT_REASON_OK");

    let permit = &again.body["grant"]["permit"];
    let entry = json!({"result": {"permit": permit, "outcome": {"kind": "OUTCOME_KIND_FAILURE"}}});
    let reported = http
        .post("/v1/report", &json!({"entries": [entry, entry]}))
        .await;
    assert_eq!(
        reported.body,
        json!({"results": [
            {"applied": true, "reason": "REPORT_REASON_OK"},
            {"applied": false, "reason": "REPORT_REASON_DUPLICATE"},
        ]})
    );
    let denied = http
        .post("/v1/acquire", &json!({"dependency": "d", "attempt": 1}))
        .await;
    assert_eq!(denied.status, 200, "a denial is an answer");
    assert_eq!(
        denied.body["denial"]["reason"],
        "DENIAL_REASON_BREAKER_OPEN"
    );
    assert_eq!(denied.body["state"], "BREAKER_STATE_OPEN");
}

#[tokio::test]
async fn what_is_learned_over_http_holds_over_grpc() {
    let service = Service::start("version: 1").await;
    let http = Http::of(&service);
    let mut grpc = service.client().await;
    let grant = grpc.granted(first("d")).await;
    for _ in 0..5 {
        let granted = http
            .post("/v1/acquire", &json!({"dependency": "d", "attempt": 1}))
            .await;
        let permit = &granted.body["grant"]["permit"];
        let outcome = json!({"kind": "OUTCOME_KIND_TIMEOUT", "latency": "2s"});
        let entries = json!([{"result": {"permit": permit, "outcome": outcome}}]);
        let reported = http.post("/v1/report", &json!({"entries": entries})).await;
        assert_eq!(reported.body["results"][0]["reason"], "REPORT_REASON_OK");
    }
    assert_eq!(grpc.get("d").await.state(), BreakerState::Open);
    let late = grpc
        .report(&grant.permit, outcome(OutcomeKind::Success))
        .await;
    assert!(!late.applied);
}

#[tokio::test]
async fn a_body_that_is_no_question_is_refused_in_words_and_changes_nothing() {
    let service = Service::start("version: 1").await;
    let http = Http::of(&service);
    for (body, named) in [
        (json!({"dependency": "a b", "attempt": 1}), "dependency"),
        (json!({"dependency": "d"}), "attempt"),
        (json!({"dependency": "d", "attempt": 2}), "previous"),
        (
            json!({"dependency": "d", "attempt": 1, "timeLeft": "-1s"}),
            "time_left",
        ),
        (
            json!({"dependency": "d", "attempt": 1, "cost": 2_000_000}),
            "cost",
        ),
        (
            json!({"dependency": "d", "attempt": 1, "timeLeft": "-0.5s"}),
            "0 or more",
        ),
        (json!({"dependency": "d", "attempt": -1}), "attempt"),
        (
            json!({"dependency": "d", "attempt": 4_294_967_296_u64}),
            "attempt",
        ),
        (
            json!({"dependency": "d", "attempt": 1, "timeLeft": 5}),
            "time_left",
        ),
        (
            json!({"dependency": "d", "attempt": 1, "safety": "IDEMPOTENT"}),
            "safety",
        ),
        (json!({"dependency": 7}), "dependency"),
        (json!({"dependency": "d", "attempts": 1}), "attempts"),
        (
            json!({"dependency": "d", "caller": {"name": 1}}),
            "caller.name",
        ),
    ] {
        let refused = http.post("/v1/acquire", &body).await;
        let text = refused.assert_refused(400, 3, "INVALID_FIELD");
        assert!(text.contains(named), "{body}: {text}");
    }
    for (body, named) in [(json!([]), "map"), (Value::Null, "")] {
        let refused = http.post("/v1/acquire", &body).await;
        let text = refused.assert_refused(400, 3, "NOT_JSON");
        assert!(text.contains(named), "{body}: {text}");
    }
    for text in [&b""[..], b"{", b"\xff\xfe", b"{\"entries\": []} x"] {
        let refused = http
            .send("POST", "/v1/report", "application/json", text)
            .await;
        refused.assert_refused(400, 3, "NOT_JSON");
    }
    let elsewhere = json!({"namespace": "elsewhere", "dependency": "d", "attempt": 1});
    let unknown = http.post("/v1/acquire", &elsewhere).await;
    unknown.assert_refused(404, 5, "UNKNOWN_NAMESPACE");
    assert_eq!(service.coordinator.dependencies(), 0);
}

#[tokio::test]
async fn only_posts_of_json_are_answered_and_only_up_to_the_limit() {
    let service = Service::start("version: 1").await;
    let http = Http::of(&service);
    let question = br#"{"dependency": "d", "attempt": 1}"#;
    for kind in [
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data",
        "application/jsonp",
        "",
    ] {
        let refused = http.send("POST", "/v1/acquire", kind, question).await;
        let text = refused.assert_refused(415, 3, "NOT_JSON");
        assert!(text.contains("application/json"), "{text}");
    }
    for method in ["GET", "PUT", "DELETE"] {
        let refused = http
            .send(method, "/v1/acquire", "application/json", question)
            .await;
        refused.assert_refused(405, 3, "NOT_JSON");
        assert!(
            refused.headers.contains("allow: post"),
            "{}",
            refused.headers
        );
    }
    for origin in ["null", "http://evil.example"] {
        let kind = format!("application/json\r\norigin: {origin}");
        let refused = http.send("POST", "/v1/acquire", &kind, question).await;
        refused.assert_refused(403, 7, "FROM_A_PAGE");
    }
    assert_eq!(service.coordinator.dependencies(), 0);
    let long = format!(r#"{{"dependency": "{}"}}"#, "d".repeat(256 * 1024));
    let refused = http
        .send("POST", "/v1/acquire", "application/json", long.as_bytes())
        .await;
    let text = refused.assert_refused(413, 8, "MESSAGE_TOO_LARGE");
    assert!(text.contains("262144"), "{text}");
}

#[tokio::test]
async fn a_full_table_says_when_to_come_again() {
    let policies = "version: 1\nnamespaces: {default: {max_dependencies: 1}}\n";
    let service = Service::start(policies).await;
    let http = Http::of(&service);
    let ask = |name: &str| json!({"dependency": name, "attempt": 1});
    assert_eq!(http.post("/v1/acquire", &ask("a")).await.status, 200);
    let refused = http.post("/v1/acquire", &ask("b")).await;
    refused.assert_refused(429, 8, "KEY_LIMIT");
    assert!(
        refused.headers.contains("retry-after: 10"),
        "{}",
        refused.headers
    );
}

#[tokio::test]
async fn the_examples_of_the_documentation_do_what_they_say() {
    let service = Service::start("version: 1").await;
    let http = Http::of(&service);
    let page = include_str!("../../docs/http.md");
    let blocks: Vec<&str> = page
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let script = blocks
        .join("\n")
        .replace("http://127.0.0.1:7461", &format!("http://{}", http.address));
    let mut shell = tokio::process::Command::new("sh");
    let ran = shell
        .args(["-euc", &script])
        .output()
        .await
        .expect("sh, with curl");
    let (out, errors) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{out}\n{errors}");
    let said = page
        .split("```text\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let lines: Vec<&str> = out.lines().collect();
    let expected: Vec<&str> = said.unwrap().lines().collect();
    assert_eq!(lines, expected, "{errors}");
}
