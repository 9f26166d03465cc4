//! The dashboard's pages over a real socket: who is let in, what a plan promises and a deed does,
//! and what a stream tells. What people see of it is tested in a browser (`tests/browser`).

use std::{net::IpAddr, sync::Arc, time::Duration};

use holdoff::{
    access::{self, Access, Keyring, Token},
    clock::Clock,
    dashboard::{Dashboard, Place, Scheme},
    store::MemoryStore,
};
use holdoff_client::proto::{BreakerState, OverrideKind};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use crate::{harness::*, overrides::forced};

/// A service with its pages.
struct Pages {
    service: Service,
    address: String,
    stop: watch::Sender<bool>,
    dashboard: Dashboard<MemoryStore>,
}

/// An answer that has ended.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn problem(&self) -> String {
        self.json()["problem"].as_str().unwrap().to_owned()
    }
}

impl Pages {
    async fn of(service: Service, pages_max: usize) -> Self {
        let access = Arc::new(Access::open(Clock::system()));
        Self::behind(service, pages_max, access).await
    }

    async fn behind(service: Service, pages_max: usize, access: Arc<Access>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let place = Place {
            address: "127.0.0.1".parse::<IpAddr>().unwrap(),
            hosts: vec!["holdoff.example.org".into()],
            pages_max,
            secret: [9; 32],
            scheme: Scheme::Http,
        };
        let (stop, stopped) = watch::channel(false);
        let coordinator = Arc::clone(&service.coordinator);
        let dashboard = Dashboard::new(coordinator, Arc::clone(&access), place, stopped);
        let routes = dashboard.around(access::router(dashboard.pages(), &access));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self {
            service,
            address: address.to_string(),
            stop,
            dashboard,
        }
    }

    async fn start(policies: &str) -> Self {
        Self::of(Service::start(policies).await, 100).await
    }

    async fn sent(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn answered(&self, text: &str) -> Answer {
        let mut stream = self.sent(text).await;
        let mut whole = Vec::new();
        let read = stream.read_to_end(&mut whole);
        timeout(PATIENCE, read).await.unwrap().unwrap();
        let whole = String::from_utf8(whole).unwrap();
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.answered(&request("GET", path, &self.address, &[], ""))
            .await
    }

    /// As the page itself sends it.
    async fn post(&self, path: &str, order: &Value) -> Answer {
        let token = self.token().await;
        let origin = format!("http://{}", self.address);
        let headers = [
            ("Content-Type", "application/json"),
            ("Origin", origin.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
            ("X-Holdoff-Token", token.as_str()),
        ];
        let order = order.to_string();
        self.answered(&request("POST", path, &self.address, &headers, &order))
            .await
    }

    async fn token(&self) -> String {
        let page = self.get("/dashboard/").await.body;
        let (_, after) = page.split_once("holdoff-token\" content=\"").unwrap();
        after.split('"').next().unwrap().to_owned()
    }

    async fn stream(&self, query: &str) -> Stream {
        let path = format!("/dashboard/stream?{query}");
        let socket = self
            .sent(&request("GET", &path, &self.address, &[], ""))
            .await;
        Stream {
            socket,
            text: String::new(),
        }
    }
}

fn request(method: &str, path: &str, host: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text + "\r\n" + body
}

/// A stream that is read.
struct Stream {
    socket: TcpStream,
    text: String,
}

impl Stream {
    /// Reads until the stream has said this, and returns all that it has said so far.
    async fn until(&mut self, said: &str) -> &str {
        let reading = async {
            let mut buffer = [0; 16 * 1024];
            while !self.text.contains(said) {
                let read = self.socket.read(&mut buffer).await.unwrap();
                assert_ne!(read, 0, "the stream ended: {}", self.text);
                self.text += &String::from_utf8_lossy(&buffer[..read]);
            }
        };
        timeout(PATIENCE, reading).await.unwrap();
        &self.text
    }

    fn forget(&mut self) {
        self.text.clear();
    }

    /// The id of the newest message that had one.
    fn id(&self) -> String {
        let (_, after) = self.text.rsplit_once("id: ").unwrap();
        after.lines().next().unwrap().trim().to_owned()
    }
}

#[tokio::test]
async fn every_answer_carries_the_headers_refusals_too() {
    let pages = Pages::start("version: 1").await;
    let foreign = request("GET", "/dashboard/", "evil.example", &[], "");
    let answers = [
        (200, pages.get("/dashboard/").await),
        (200, pages.get("/dashboard/assets/page.js").await),
        (404, pages.get("/dashboard/assets/../secret").await),
        (404, pages.get("/nowhere").await),
        (307, pages.get("/").await),
        (421, pages.answered(&foreign).await),
    ];
    for (status, answer) in answers {
        assert_eq!(answer.status, status, "{answer:?}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-",
        ] {
            assert!(answer.head.contains(header), "{header}: {answer:?}");
        }
    }
    let page = pages.get("/dashboard/").await.body;
    assert!(
        !page.contains("<script>") && !page.contains("style="),
        "nothing inline"
    );
    assert!(!page.contains("{token}"));
}

#[tokio::test]
async fn what_a_browser_has_already_is_not_sent_again() {
    let pages = Pages::start("version: 1").await;
    let first = pages.get("/dashboard/assets/style.css").await;
    let tag = first
        .head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "));
    let known = [("If-None-Match", tag.unwrap())];
    let path = "/dashboard/assets/style.css";
    let again = request("GET", path, &pages.address, &known, "");
    let again = pages.answered(&again).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}

#[tokio::test]
async fn only_the_page_itself_can_change_anything() {
    let pages = Pages::start("version: 1").await;
    let (token, host) = (pages.token().await, pages.address.clone());
    let origin = format!("http://{host}");
    let order = json!({
        "action": "open", "dependency": "payments", "lasts": {"for_ms": 60_000},
        "owner": "eve", "reason": "because", "epoch": 0,
    });
    let good = [
        ("Content-Type", "application/json"),
        ("Origin", origin.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("X-Holdoff-Token", token.as_str()),
    ];
    let with = |name: &str, value: Option<&'static str>| {
        let mut headers: Vec<(&str, &str)> = good.to_vec();
        headers.retain(|(other, _)| *other != name);
        headers.extend(value.map(|value| match name {
            "Content-Type" => ("Content-Type", value),
            "Origin" => ("Origin", value),
            "Sec-Fetch-Site" => ("Sec-Fetch-Site", value),
            _ => ("X-Holdoff-Token", value),
        }));
        headers
    };
    let matrix = [
        (with("Content-Type", Some("text/plain")), 415),
        (
            with("Content-Type", Some("application/x-www-form-urlencoded")),
            415,
        ),
        (
            with("Content-Type", Some("application/json; charset=x")),
            415,
        ),
        (with("Content-Type", None), 415),
        (with("Origin", Some("http://evil.example")), 403),
        (with("Origin", Some("null")), 403),
        (with("Origin", Some("http://127.0.0.1:1")), 403),
        (with("Sec-Fetch-Site", Some("cross-site")), 403),
        (with("Sec-Fetch-Site", Some("same-site")), 403),
        (with("X-Holdoff-Token", Some("1.00")), 403),
        (with("X-Holdoff-Token", None), 403),
    ];
    for path in ["/dashboard/act", "/dashboard/plan"] {
        for (headers, status) in &matrix {
            let text = request("POST", path, &host, headers, &order.to_string());
            let answer = pages.answered(&text).await;
            assert_eq!(answer.status, *status, "{headers:?}: {answer:?}");
        }
        let foreign = request("POST", path, "evil.example", &good, &order.to_string());
        assert_eq!(pages.answered(&foreign).await.status, 421);
        for method in ["GET", "PUT", "DELETE", "PATCH"] {
            let text = request(method, path, &host, &good, "");
            assert_eq!(pages.answered(&text).await.status, 405, "{method}");
        }
    }
    // A program that is no browser may leave out what only browsers send.
    let bare = with("Sec-Fetch-Site", None);
    let bare: Vec<_> = bare
        .into_iter()
        .filter(|(name, _)| *name != "Origin")
        .collect();
    let text = request("POST", "/dashboard/act", &host, &bare, &order.to_string());
    assert_eq!(
        pages.answered(&text).await.status,
        404,
        "there is no such dependency yet"
    );
    assert_eq!(
        pages.service.coordinator.dependencies(),
        0,
        "nothing was made"
    );
}

#[tokio::test]
async fn a_link_leads_to_the_page_and_to_nothing_else() {
    let pages = Pages::start("version: 1").await;
    let link = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
    ];
    for (path, status) in [
        ("/dashboard/", 200),
        ("/dashboard/stream", 403),
        ("/dashboard/policy?dependency=d", 403),
        ("/dashboard/assets/page.js", 403),
    ] {
        let text = request("GET", path, &pages.address, &link, "");
        assert_eq!(pages.answered(&text).await.status, status, "{path}");
    }
    let embedded = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "no-cors"),
    ];
    let text = request("GET", "/dashboard/", &pages.address, &embedded, "");
    assert_eq!(pages.answered(&text).await.status, 403);
}

#[tokio::test]
async fn a_plan_changes_nothing_and_equals_the_effect_and_the_override_ends_on_time() {
    let pages = Pages::start("version: 1").await;
    let mut client = pages.service.client().await;
    for instance in ["a", "b", "c"] {
        client.granted(first_of("payments", instance)).await;
    }
    let mut order = json!({
        "action": "open", "dependency": "payments", "lasts": {"for_ms": 600_000},
    });
    let before = client.get("payments").await;
    let plan = pages.post("/dashboard/plan", &order).await.json();
    assert_eq!(
        client.get("payments").await,
        before,
        "a plan changes nothing"
    );
    assert_eq!(plan["instances"], before.active_instances);
    assert_eq!(plan["calls_per_second"], json!(before.calls_per_second));
    assert_eq!(
        (&plan["after"], &plan["confirm"]),
        (&json!("forced open"), &Value::Null)
    );
    for (field, value) in [("owner", "ana"), ("reason", "INC-7")] {
        order[field] = json!(value);
    }
    order["epoch"] = plan["epoch"].clone();
    let done = pages.post("/dashboard/act", &order).await;
    assert_eq!(done.status, 200, "{done:?}");
    let done = done.json();
    assert_eq!(done["row"]["state"], plan["after"]);
    assert_eq!(done["row"]["order"]["until"], plan["until"]);
    assert_eq!(done["undo"], json!({"action": "release"}));
    let after = client.get("payments").await;
    assert_eq!(after.state(), BreakerState::ForcedOpen);
    pages.service.at_ms(599_000);
    assert_eq!(
        client.get("payments").await.state(),
        BreakerState::ForcedOpen
    );
    pages.service.at_ms(600_000);
    assert_eq!(client.get("payments").await.state(), BreakerState::Closed);
}

#[tokio::test]
async fn undoing_brings_the_former_override_back_with_the_time_that_was_left() {
    let pages = Pages::start("version: 1").await;
    let mut client = pages.service.client().await;
    client.granted(first("d")).await;
    let act = async |mut order: Value| {
        let epoch = pages.post("/dashboard/plan", &order).await.json()["epoch"].clone();
        order["epoch"] = epoch;
        order["owner"] = json!("ana");
        order["reason"] = json!("why");
        let done = pages.post("/dashboard/act", &order).await;
        assert_eq!(done.status, 200, "{done:?}");
        done.json()
    };
    act(json!({"action": "open", "dependency": "d", "lasts": {"for_ms": 600_000}})).await;
    pages.service.at_ms(100_000);
    let closed =
        act(json!({"action": "close", "dependency": "d", "lasts": {"for_ms": 60_000}})).await;
    assert_eq!(
        closed["undo"],
        json!({"action": "open", "lasts": {"for_ms": 500_000}})
    );
    let released = act(json!({"action": "release", "dependency": "d"})).await;
    assert_eq!(released["undo"]["action"], "close");
    let reset = act(json!({"action": "reset", "dependency": "d"})).await;
    assert_eq!(reset["undo"], Value::Null);
}

/// Longer and shorter than the page itself orders: others may.
#[tokio::test]
async fn undoing_brings_back_just_the_time_that_any_override_can_have_had() {
    let pages = Pages::start("version: 1").await;
    let mut client = pages.service.client().await;
    let send = async |mut order: Value, confirm: &str| {
        order["dependency"] = json!("d");
        let epoch = pages.post("/dashboard/plan", &order).await.json()["epoch"].clone();
        order["epoch"] = epoch;
        order["owner"] = json!("ana");
        order["reason"] = json!("why");
        order["confirm"] = json!(confirm);
        pages.post("/dashboard/act", &order).await
    };
    let day = 24 * 3_600_000_u64;
    for millis in [1, 300, 999, 1_000, day, day + 1, 365 * day] {
        let mut order = forced("d", OverrideKind::ForceOpen);
        order.expires_in = Some(prost_types::Duration {
            seconds: (millis / 1_000) as i64,
            nanos: (millis % 1_000 * 1_000_000) as i32,
        });
        client.operates.set_override(order).await.unwrap();
        let released = send(json!({"action": "release"}), "").await.json();
        let undo = released["undo"].clone();
        assert_eq!(undo, json!({"action": "open", "lasts": {"for_ms": millis}}));
        if millis > day {
            let untyped = send(undo.clone(), "").await;
            assert_eq!(
                untyped.status, 400,
                "more than a day must be typed: {untyped:?}"
            );
        }
        let undone = send(undo, if millis > day { "d" } else { "" }).await;
        assert_eq!(undone.status, 200, "{millis}: {undone:?}");
        let left = client.get("d").await.r#override.unwrap().expires_in;
        assert_eq!(ms(left), millis as f64);
    }
}

#[tokio::test]
async fn an_order_that_makes_no_sense_is_refused_by_name_and_nothing_is_done() {
    let pages = Pages::start("version: 1").await;
    let mut client = pages.service.client().await;
    client.granted(first("d")).await;
    let epoch = client.get("d").await.epoch;
    let good = json!({
        "action": "open", "dependency": "d", "lasts": {"for_ms": 60_000},
        "owner": "ana", "reason": "why", "epoch": epoch,
    });
    let long = "x".repeat(1_001);
    let bad: [(&str, Value, u16, &str); 15] = [
        (
            "reason",
            json!(""),
            400,
            "reason: nothing is not allowed; 1 to 1000 bytes",
        ),
        ("reason", json!(" \n"), 400, "reason: nothing"),
        (
            "reason",
            json!(long),
            400,
            "reason: 1001 bytes is not allowed",
        ),
        (
            "owner",
            json!(""),
            400,
            "owner: nothing is not allowed; 1 to 200 bytes",
        ),
        ("lasts", Value::Null, 400, "lasts: nothing"),
        (
            "lasts",
            json!({"for_ms": 0}),
            400,
            "lasts.for_ms: 0 is not allowed; 1 to 31536000000",
        ),
        (
            "lasts",
            json!({"for_ms": 31_536_000_001_u64}),
            400,
            "lasts.for_ms: 31536000001",
        ),
        (
            "lasts",
            json!("until_released"),
            400,
            "confirm: \"\" is not allowed; type the name",
        ),
        ("lasts", json!("for ever"), 400, "unknown variant"),
        ("action", json!("destroy"), 400, "unknown variant `destroy`"),
        (
            "action",
            json!("release"),
            400,
            "lasts: a time is not allowed",
        ),
        (
            "dependency",
            json!("<script>"),
            400,
            "dependency: \"<script>\" is not allowed",
        ),
        (
            "dependency",
            json!("unknown"),
            404,
            "no dependency `unknown`",
        ),
        ("namespace", json!("nowhere"), 404, "no namespace `nowhere`"),
        (
            "epoch",
            json!(epoch + 1),
            409,
            "d has changed since you looked: it is closed now",
        ),
    ];
    for (field, value, status, problem) in bad {
        let mut order = good.clone();
        order[field] = value.clone();
        let answer = pages.post("/dashboard/act", &order).await;
        assert_eq!(answer.status, status, "{field} {value}: {answer:?}");
        assert!(
            answer.problem().contains(problem),
            "{field} {value}: {answer:?}"
        );
    }
    let mut unknown = good.clone();
    unknown["surprise"] = json!(1);
    let answer = pages.post("/dashboard/act", &unknown).await;
    assert!(
        answer.problem().contains("unknown field `surprise`"),
        "{answer:?}"
    );
    for action in ["release", "clear_hold"] {
        let order = json!({"action": action, "dependency": "d"});
        let answer = pages.post("/dashboard/plan", &order).await;
        assert_eq!(answer.status, 409, "{answer:?}");
    }
    let large = json!({"action": "open", "dependency": "d", "reason": "x".repeat(20_000)});
    assert_eq!(pages.post("/dashboard/act", &large).await.status, 413);
    assert_eq!(client.get("d").await.epoch, epoch, "nothing was done");
    assert_eq!(pages.post("/dashboard/act", &good).await.status, 200);
}

#[tokio::test]
async fn a_stream_begins_with_everything_and_goes_on_with_changes_and_beats() {
    let pages =
        Pages::start("version: 1\nnamespaces: {default: {dependencies: {named: {}}}}").await;
    let mut client = pages.service.client().await;
    client.granted(first("payments")).await;
    let mut stream = pages.stream("namespace=default").await;
    let begun = stream.until("event: snapshot").await;
    assert!(begun.contains("event: beat"), "{begun}");
    let begun = stream.until("]}\n\n").await;
    assert!(
        begun.contains("\"name\":\"payments\"") && begun.contains("\"unused\":true"),
        "{begun}"
    );
    stream.forget();
    client.trip("payments", 5).await;
    let change = stream.until("\"state\":\"open\"").await;
    assert!(
        change.contains("event: change") && !change.contains("\"named\""),
        "{change}"
    );
    stream.until("\"kind\":\"tripped\"").await;
    // Another page that was there before resumes; one of another run begins anew.
    let id = stream.id();
    client.trip("ledger", 5).await;
    stream.until("ledger").await;
    let mut resumed = pages.stream(&format!("after={id}")).await;
    let change = resumed.until("ledger").await;
    assert!(!change.contains("event: snapshot"), "{change}");
    let mut anew = pages.stream("after=1-1").await;
    anew.until("event: snapshot").await;
    // The end of the service is the end of its streams.
    pages.stop.send(true).unwrap();
    let ended = async {
        let mut rest = Vec::new();
        stream.socket.read_to_end(&mut rest).await.unwrap();
    };
    timeout(PATIENCE, ended).await.unwrap();
}

#[tokio::test]
async fn a_burst_of_changes_is_a_frame_or_two_and_ends_as_it_is() {
    let pages = Pages::start("version: 1").await;
    let mut client = pages.service.client().await;
    client.granted(first("d")).await;
    let mut stream = pages.stream("").await;
    stream.until("event: snapshot").await;
    let begun = std::time::Instant::now();
    for round in 0..200 {
        client.trip(&format!("d{round}"), 5).await;
    }
    stream.until("\"name\":\"d199\"").await;
    let frames = stream.text.matches("event: change").count();
    // One each 150 ms, one with the numbers each second, and the first.
    let most = begun.elapsed().as_millis() / 150 + begun.elapsed().as_secs() as u128 + 2;
    assert!(frames as u128 <= most, "{frames} frames, {most} at most");
}

#[tokio::test]
async fn a_dependency_s_page_is_told_all_of_it() {
    let policies =
        policy_of_d("{pushback: {scope: dependency}, retry: {initial_delay: 10s, jitter: none}}");
    let pages = Pages::start(&policies).await;
    let mut client = pages.service.client().await;
    let mut stream = pages.stream("dependency=d").await;
    stream.until("event: dependency").await;
    let grant = client.granted(first_of("d", "node-1")).await;
    client
        .ask(retry(
            "d",
            2,
            &grant.permit,
            holdoff_client::proto::OutcomeKind::Failure,
        ))
        .await;
    stream.forget();
    stream.until("\"planned\":[").await;
    let whole = stream.until("\"traffic\":").await.to_owned();
    for field in [
        "\"reporters\":[{",
        "\"suspicion\":",
        "\"budget_ttl_ms\":10000",
        "\"ahead\":{",
    ] {
        assert!(whole.contains(field), "{field}: {whole}");
    }
    let policy = pages.get("/dashboard/policy?dependency=d").await.json();
    let values = policy["values"].as_array().unwrap();
    let written = |field: &str| values.iter().find(|value| value["field"] == field).unwrap();
    assert_eq!(
        written("retry.initial_delay")["origin"],
        "dependencies.d (policies.yaml:2)"
    );
    assert_eq!(written("retry.max_attempts")["origin"], "built-in");
    for chart in ["states", "traffic", "failing", "budget", "calendar"] {
        for theme in ["light", "dark"] {
            let path = format!("/dashboard/chart/{chart}.svg?dependency=d&width=600&theme={theme}");
            let drawn = pages.get(&path).await;
            assert_eq!(drawn.status, 200, "{drawn:?}");
            assert!(
                drawn.head.contains("content-type: image/svg+xml"),
                "{drawn:?}"
            );
            assert!(
                drawn.body.contains("</svg>") && !drawn.body.contains("style="),
                "{drawn:?}"
            );
        }
    }
    for (path, status) in [
        ("/dashboard/chart/other.svg?dependency=d&width=600", 404),
        ("/dashboard/chart/states.svg?dependency=d&width=100000", 400),
        (
            "/dashboard/chart/states.svg?dependency=nobody&width=600",
            404,
        ),
        ("/dashboard/history?dependency=%3Cscript%3E", 400),
        ("/dashboard/stream?namespace=nowhere", 404),
    ] {
        assert_eq!(pages.get(path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_browser_is_shown_a_problem_as_a_page_and_whoever_else_is_told_it_as_json() {
    let pages = Pages::start(&policy_of_d("{}")).await;
    let twice = "query: duplicate field `dependency`";
    for (path, status, problem) in [
        ("/dashboard/history?dependency=d&dependency=e", 400, twice),
        ("/dashboard/stream?dependency=d&dependency=e", 400, twice),
        (
            "/dashboard/chart/states.svg?dependency=d",
            400,
            "query: missing field `width`",
        ),
        (
            "/dashboard/stream?namespace=nowhere",
            404,
            "there is no namespace `nowhere`",
        ),
        (
            "/dashboard/policy?dependency=%3Cb%3E",
            400,
            "dependency: \"<b>\" is not allowed",
        ),
        (
            "/dashboard/nothing%3Cb%3E",
            404,
            "there is no page \"/dashboard/nothing%3Cb%3E\" here",
        ),
        ("/dashboard/assets/none.js", 404, "there is no such file"),
    ] {
        let read = [("Accept", "text/html"), ("Sec-Fetch-Mode", "cors")];
        let read = request("GET", path, &pages.address, &read, "");
        for answer in [pages.get(path).await, pages.answered(&read).await] {
            assert_eq!(answer.status, status, "{path}");
            assert!(answer.problem().starts_with(problem), "{path}: {answer:?}");
            assert!(
                answer.head.contains("content-type: application/json"),
                "{path}"
            );
        }
        for wants in [("Sec-Fetch-Mode", "navigate"), ("Accept", "text/html,*/*")] {
            let page = request("GET", path, &pages.address, &[wants], "");
            let page = pages.answered(&page).await;
            assert_eq!(page.status, status, "{path}");
            assert!(
                page.head.contains("content-type: text/html"),
                "{path}: {page:?}"
            );
            assert!(
                page.head.contains("content-security-policy:"),
                "{path}: {page:?}"
            );
            for part in [
                "href=\"/dashboard/\"",
                "assets/style.css",
                "assets/problem.js",
            ] {
                assert!(page.body.contains(part), "{path}: {page:?}");
            }
            // What is wrong is other people's text, and comes into no markup.
            let is_in = ["nowhere", "<b>", "dependency"]
                .iter()
                .any(|it| page.body.contains(it));
            assert!(!is_in, "{path}: {page:?}");
        }
    }
    let script = pages.get("/dashboard/assets/problem.js").await;
    assert_eq!(script.status, 200);
    let elsewhere = request(
        "GET",
        "/nothing",
        &pages.address,
        &[("Accept", "text/html")],
        "",
    );
    let elsewhere = pages.answered(&elsewhere).await;
    assert_eq!((elsewhere.status, &*elsewhere.body), (404, ""));
}

#[tokio::test]
async fn as_many_pages_as_there_is_room_for_and_a_closed_one_gives_its_place_back() {
    let pages = Pages::of(Service::start("version: 1").await, 2).await;
    let mut first_page = pages.stream("").await;
    first_page.until("event: snapshot").await;
    let mut second_page = pages.stream("").await;
    second_page.until("event: snapshot").await;
    assert_eq!(pages.get("/dashboard/stream").await.status, 503);
    drop(first_page);
    let again = async {
        loop {
            let mut stream = pages.stream("").await;
            let mut buffer = [0; 256];
            let read = stream.socket.read(&mut buffer).await.unwrap();
            if buffer[..read].starts_with(b"HTTP/1.1 200") {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), again).await.unwrap();
    drop(pages.dashboard.clone());
}

/// RFC 9112, 3.2: of two hosts nobody knows which was meant.
#[tokio::test]
async fn a_request_with_two_hosts_or_with_a_foreign_one_in_its_first_line_reads_nothing() {
    let pages = Pages::of(Service::start("version: 1").await, 100).await;
    for (text, status) in [
        (
            "GET /dashboard/ HTTP/1.1\r\nHost: localhost\r\nHost: evil.example",
            400,
        ),
        (
            "GET /dashboard/ HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
            400,
        ),
        (
            "GET http://evil.example/dashboard/ HTTP/1.1\r\nHost: localhost",
            421,
        ),
        (
            "GET http://localhost/dashboard/ HTTP/1.1\r\nHost: evil.example",
            421,
        ),
        (
            "GET http://localhost/dashboard/ HTTP/1.1\r\nHost: localhost",
            200,
        ),
        ("GET /dashboard/ HTTP/1.1\r\nHost: localhost", 200),
    ] {
        let asked = format!("{text}\r\nConnection: close\r\n\r\n");
        assert_eq!(pages.answered(&asked).await.status, status, "{text}");
    }
}

#[tokio::test]
async fn who_has_no_token_sees_nothing_and_who_signs_in_does_what_its_role_may() {
    let (token, viewer) = (Token::new([1; 32]), Token::new([2; 32]));
    let written = |name: &str, token: &Token, role: &str| {
        let hash = token.hash();
        format!("  {name}: {{grants: {{default: {role}}}, secrets: [{{sha256: {hash}}}]}}\n")
    };
    let (ana, eve) = (
        written("ana", &token, "operator"),
        written("eve", &viewer, "viewer"),
    );
    let file = format!("version: 1\ntokens:\n{ana}{eve}");
    let keyring = Keyring::parse(&file).unwrap_or_else(|why| panic!("{why}: {file}"));
    let access = Arc::new(Access::held_by(keyring, Clock::system()));
    let pages = Pages::behind(Service::start("version: 1").await, 100, Arc::clone(&access)).await;
    pages.service.client().await.granted(first("d")).await;
    for path in [
        "/dashboard/stream",
        "/dashboard/policy?dependency=d",
        "/dashboard/namespaces",
    ] {
        assert_eq!(pages.get(path).await.status, 401, "{path}");
    }
    assert_eq!(pages.get("/dashboard/me").await.json()["known"], false);
    let wrong = pages
        .post("/dashboard/login", &json!({"token": "wrong"}))
        .await;
    assert_eq!(wrong.status, 401, "{wrong:?}");
    let order = json!({"action": "open", "dependency": "d", "lasts": {"for_ms": 60_000}});
    for (token, status) in [(&token, 200), (&viewer, 403)] {
        let login = json!({"token": token.reveal()});
        let login = pages.post("/dashboard/login", &login).await;
        assert_eq!(login.status, 200, "{login:?}");
        let cookie = login
            .head
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.unwrap();
        for part in ["; httponly", "; samesite=strict", "; path=/dashboard"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert!(!login.head.contains(&token.reveal().to_ascii_lowercase()));
        let cookie = cookie.split(';').next().unwrap();
        let with = |path: &str| request("GET", path, &pages.address, &[("Cookie", cookie)], "");
        let policy = pages
            .answered(&with("/dashboard/policy?dependency=d"))
            .await;
        assert_eq!(policy.status, 200, "{policy:?}");
        let other = pages
            .answered(&with("/dashboard/policy?dependency=d&namespace=x"))
            .await;
        assert_eq!(other.status, 403, "{other:?}");
        let page_token = pages.token().await;
        let headers = [
            ("Content-Type", "application/json"),
            ("X-Holdoff-Token", page_token.as_str()),
            ("Cookie", cookie),
        ];
        let plan = request(
            "POST",
            "/dashboard/plan",
            &pages.address,
            &headers,
            &order.to_string(),
        );
        assert_eq!(pages.answered(&plan).await.status, status);
    }
    // What is revoked is out at once, sessions too.
    access.exchange(Keyring::parse("version: 1\ntokens: {}\n").unwrap());
    let login = pages
        .post("/dashboard/login", &json!({"token": token.reveal()}))
        .await;
    assert_eq!(login.status, 401);
}
