//! Who may do what: every RPC and page with every kind of caller, over a real socket where it is
//! an RPC, against expectations that follow from the one table.

use std::{collections::BTreeSet, sync::Arc};

use bytes::{Buf, BufMut, Bytes};
use holdoff::{
    access::{Keyring, Method, Needs, Role, Token},
    server,
    settings::MetricsDependencies,
};
use holdoff_client::proto::{
    AcquireBatch, GetDependencyRequest, Hello, ListAuditRequest, ListEventsRequest, OutcomeKind,
    OverrideKind, ReportRequest, SessionRequest, SessionResponse, SetOverrideRequest, Subscribe,
    WatchDependenciesRequest, acquire_item, session_request::Message as Asked,
    session_response::Message as Answered,
};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;

use crate::harness::{self, PATIENCE, Service, Setup, caller, first, outcome, result, source};

/// The callers of the matrix. Roles are in the namespace `default` unless said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Nobody,
    /// A token that nobody has.
    Bad,
    Expired,
    Revoked,
    Client,
    Viewer,
    Operator,
    /// All roles, in another namespace.
    Elsewhere,
    /// A viewer of all namespaces.
    Overseer,
}

use Who::*;

const ALL: [Who; 9] = [
    Nobody, Bad, Expired, Revoked, Client, Viewer, Operator, Elsewhere, Overseer,
];

impl Who {
    /// In the access file, besides the hash of the token.
    fn entry(self) -> Option<&'static str> {
        match self {
            Nobody | Bad => None,
            Expired | Revoked => Some("{default: [client, operator]}"),
            Client => Some("{default: client}"),
            Viewer => Some("{default: viewer}"),
            Operator => Some("{default: operator}"),
            Elsewhere => Some("{other: [client, viewer, operator]}"),
            Overseer => Some("{\"*\": viewer}"),
        }
    }

    fn token(self) -> Token {
        Token::new([self as u8 + 1; 32])
    }

    fn is_known(self) -> bool {
        !matches!(self, Nobody | Bad | Expired | Revoked)
    }

    /// Whether it holds a role in `default`: written out, not computed by what is tested.
    fn holds(self, role: Role) -> bool {
        match (self, role) {
            (Client, Role::Client) => true,
            (Viewer | Operator | Overseer, Role::Viewer) => true,
            (Operator, Role::Operator) => true,
            (_, Role::Client | Role::Viewer | Role::Operator) => false,
        }
    }
}

/// A file with all callers but those named.
fn access_file(without: &[Who]) -> String {
    let mut text = "version: 1\ntokens:\n".to_owned();
    for who in ALL.into_iter().filter(|who| !without.contains(who)) {
        if let Some(grants) = who.entry() {
            // The clock of these tests stands at November 2023.
            let expires = match who {
                Expired => ", expires: 2023-01-01T00:00:00Z",
                _ => "",
            };
            let name = format!("{who:?}").to_lowercase();
            let hash = who.token().hash();
            text.push_str(&format!(
                "  {name}: {{grants: {grants}, secrets: [{{sha256: {hash}{expires}}}]}}\n"
            ));
        }
    }
    text
}

/// What the table says of a request about `default`.
fn expected(needs: Needs, who: Who) -> Option<Code> {
    let allowed = match needs {
        Needs::Nothing => return None,
        _ if !who.is_known() => return Some(Code::Unauthenticated),
        Needs::AnyRole => true,
        Needs::Role(role) => who.holds(role),
        Needs::Somewhere(role) => who.holds(role) || who == Elsewhere,
        Needs::Everywhere(role) => who == Overseer && role == Role::Viewer,
    };
    (!allowed).then_some(Code::PermissionDenied)
}

/// Messages as they are.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// All that is described of what the port serves.
fn described() -> Vec<DescriptorPool> {
    [
        holdoff::proto::DESCRIPTORS,
        holdoff::proto::ENVOY_DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ]
    .map(|set| DescriptorPool::decode(set).unwrap())
    .to_vec()
}

/// A message of an RPC about a namespace, with what makes most of them whole.
fn message(method: Method, namespace: &str) -> Bytes {
    if method == Method::Session {
        let requests = vec![holdoff_client::proto::AcquireRequest {
            namespace: namespace.into(),
            ..first("d")
        }];
        let message = Some(Asked::Acquire(AcquireBatch { requests }));
        return SessionRequest { id: 1, message }.encode_to_vec().into();
    }
    let input = described().iter().find_map(|pool| {
        let (service, name) = method.path()[1..].split_once('/')?;
        let service = pool.get_service_by_name(service)?;
        let found = service.methods().find(|found| found.name() == name);
        found.map(|found| found.input())
    });
    let mut message = DynamicMessage::new(input.expect("it is described"));
    for (field, value) in [
        ("namespace", Value::String(namespace.into())),
        ("domain", Value::String(namespace.into())),
        ("dependency", Value::String("d".into())),
        ("name", Value::String("d".into())),
        ("owner", Value::String("somebody".into())),
        ("reason", Value::String("a test".into())),
        ("attempt", Value::U32(1)),
    ] {
        let known = message.descriptor().get_field_by_name(field);
        if known.is_some_and(|known| value.is_valid_for_field(&known)) {
            message.set_field_by_name(field, value);
        }
    }
    message.encode_to_vec().into()
}

/// What a caller is answered: a refusal for who it is, or `None` for whatever else.
async fn refusal(channel: &Channel, who: Who, method: Method, namespace: &str) -> Option<Status> {
    let mut request = Request::new(tokio_stream::once(message(method, namespace)));
    if who != Nobody {
        let bearer = format!("Bearer {}", who.token().reveal());
        request
            .metadata_mut()
            .insert("authorization", bearer.parse().unwrap());
    }
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static(method.path());
    let answered = match grpc.streaming(request, path, Raw).await {
        Err(status) => Err(status),
        // A bad item of a session is told inside of it.
        Ok(stream) if method == Method::Session => {
            let answer = stream.into_inner().message().await.unwrap().unwrap();
            item_status(SessionResponse::decode(answer).unwrap())
        }
        Ok(_) => Ok(()),
    };
    let refused = answered.err()?;
    matches!(
        refused.code(),
        Code::Unauthenticated | Code::PermissionDenied
    )
    .then_some(refused)
}

fn item_status(answer: SessionResponse) -> Result<(), Status> {
    let Some(Answered::Acquired(batch)) = answer.message else {
        panic!("{answer:?}");
    };
    match batch.items[0].result.clone().unwrap() {
        acquire_item::Result::Response(_) => Ok(()),
        acquire_item::Result::Status(status) => {
            let details = status.encode_to_vec().into();
            let code = Code::from_i32(status.code);
            Err(Status::with_details(code, status.message, details))
        }
    }
}

async fn service() -> Service {
    let service = Service::start_with(Setup {
        policies: "version: 1\nnamespaces: {default: {dependencies: {d: {}}}, other: {}}\n",
        access: Some(&access_file(&[])),
        ..Setup::default()
    })
    .await;
    let left = Keyring::parse(&access_file(&[Revoked])).unwrap();
    service.access.exchange(left);
    service
}

async fn channel(service: &Service) -> Channel {
    let endpoint = Endpoint::from_shared(service.urls[0].clone()).unwrap();
    endpoint.timeout(PATIENCE).connect().await.unwrap()
}

#[test]
fn every_rpc_that_is_served_has_a_row_and_every_row_is_served() {
    let pools = described();
    let services = pools.iter().flat_map(DescriptorPool::services);
    let served: BTreeSet<String> = services
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|method| format!("/{}/{}", method.parent_service().full_name(), method.name()))
        .collect();
    let rows: BTreeSet<String> = Method::ALL
        .iter()
        .map(|row| row.path().to_owned())
        .collect();
    assert_eq!(served, rows);
}

#[tokio::test]
async fn every_rpc_is_answered_to_those_whom_the_table_names_and_refused_to_all_others() {
    let service = service().await;
    let mut cells = 0;
    for &method in Method::ALL {
        for who in ALL {
            // A connection of its own: what it was refused before does not count against it.
            let channel = channel(&service).await;
            let refused = refusal(&channel, who, method, "default").await;
            let code = refused.as_ref().map(Status::code);
            assert_eq!(code, expected(method.needs(), who), "{method:?} {who:?}");
            if let Some(refused) = refused {
                let info = refused.get_details_error_info().expect("ErrorInfo");
                let reason = match (code, who) {
                    (Some(Code::PermissionDenied), _) => "ROLE_MISSING",
                    (_, Nobody) => "CREDENTIAL_MISSING",
                    _ => "CREDENTIAL_REFUSED",
                };
                assert_eq!(
                    (info.domain.as_str(), info.reason.as_str()),
                    ("holdoff", reason)
                );
            }
            cells += 1;
            service.at_ms(200 * cells);
        }
    }
    assert_eq!(cells, 9 * Method::ALL.len() as u64);
}

/// Z-1: neither code nor text tells a namespace that is there from one that is not.
#[tokio::test]
async fn a_refusal_is_the_same_whether_there_is_such_a_namespace_or_not() {
    let service = service().await;
    let channel = channel(&service).await;
    for &method in Method::ALL {
        for who in [Client, Viewer, Operator] {
            let there = refusal(&channel, who, method, "other").await;
            let absent = refusal(&channel, who, method, "absent").await;
            let told = |refused: &Option<Status>, name: &str| {
                let refused = refused.as_ref()?;
                Some((refused.code(), refused.message().replace(name, "NAME")))
            };
            assert_eq!(
                told(&there, "other"),
                told(&absent, "absent"),
                "{method:?} {who:?}"
            );
            if let Needs::Role(_) = method.needs() {
                assert!(there.is_some(), "{method:?} {who:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_has_no_row_is_answered_by_nobody() {
    let service = service().await;
    let channel = channel(&service).await;
    for path in ["/holdoff.v1.OperatorService/DropEverything", "/x", "/"] {
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let request = Request::new(tokio_stream::once(Bytes::new()));
        let path = http::uri::PathAndQuery::from_static(path);
        let status = grpc.streaming(request, path, Raw).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
    }
}

#[tokio::test]
async fn every_page_is_shown_to_those_whom_its_row_names() {
    use tower::ServiceExt;

    let service = service().await;
    let coordinator = Arc::clone(&service.coordinator);
    let metrics = server::Metrics::new(coordinator, MetricsDependencies::default(), 16);
    let metrics = Arc::new(metrics);
    let pages = || server::http::pages(&metrics, &service.access);
    let rows = pages();
    let rows: Vec<(&str, Needs)> = rows.iter().map(|page| (page.path, page.needs)).collect();
    assert!(rows.iter().any(|(path, _)| *path == "/metrics"));
    let router = holdoff::access::router(pages(), &service.access);
    for (step, (path, needs)) in rows.into_iter().enumerate() {
        for who in ALL {
            // Whose namespace it is, these pages learn from the message.
            let (mut request, body) = match path.starts_with("/v1/") {
                true => (http::Request::post(path), "{\"namespace\": \"default\"}"),
                false => (http::Request::get(path), ""),
            };
            request = request.header("content-type", "application/json");
            if who != Nobody {
                let bearer = format!("Bearer {}", who.token().reveal());
                request = request.header("authorization", bearer);
            }
            let request = request.body(axum::body::Body::from(body)).unwrap();
            let status = router.clone().oneshot(request).await.unwrap().status();
            let refused = match status.as_u16() {
                401 => Some(Code::Unauthenticated),
                403 => Some(Code::PermissionDenied),
                _ => None,
            };
            assert_eq!(refused, expected(needs, who), "{path} {who:?}");
        }
        service.at_ms(1_000 * (step as u64 + 1));
    }
}

fn signed<T>(who: Who, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let bearer = format!("Bearer {}", who.token().reveal());
    let metadata = request.metadata_mut();
    metadata.insert("authorization", bearer.parse().unwrap());
    request
}

#[tokio::test]
async fn an_action_is_signed_by_the_principal_with_the_named_owner_beside_it() {
    let service = service().await;
    let mut client = service.client().await;
    for owner in ["bob", "", "token:overseer"] {
        let force = SetOverrideRequest {
            dependency: "d".into(),
            kind: OverrideKind::ForceOpen.into(),
            owner: owner.into(),
            reason: "maintenance".into(),
            ..SetOverrideRequest::default()
        };
        let forced = client.operates.set_override(signed(Operator, force)).await;
        forced.unwrap();
    }
    let list = signed(Viewer, ListAuditRequest::default());
    let records = client.operates.list_audit(list).await.unwrap();
    let owners: Vec<String> = records
        .into_inner()
        .records
        .into_iter()
        .map(|it| it.owner)
        .collect();
    assert_eq!(
        owners,
        [
            "token:operator (bob)",
            "token:operator",
            "token:operator (token:overseer)"
        ]
    );
}

/// Files name every namespace, so what happens to them is not for those who may see one.
#[tokio::test]
async fn events_of_the_whole_service_are_for_those_who_see_all_of_it() {
    let service = service().await;
    let mut client = service.client().await;
    let read_again = Ok(vec![source("version: 1")]);
    service.coordinator.reload(read_again).await;
    let mut seen = async |who| {
        let request = signed(who, ListEventsRequest::default());
        let listed = client.operates.list_events(request).await.unwrap();
        listed.into_inner().events.len()
    };
    let (mut all, began) = (0, std::time::Instant::now());
    // Published by another task.
    while all == 0 && began.elapsed() < PATIENCE {
        all = seen(Overseer).await;
    }
    assert!(all > 0);
    assert_eq!(seen(Viewer).await, 0);
}

type Answers = tonic::Streaming<SessionResponse>;

async fn session(
    client: &mut harness::Client,
    who: Who,
) -> (mpsc::Sender<SessionRequest>, Answers) {
    let (asks, asked) = mpsc::channel(8);
    let request = signed(who, ReceiverStream::new(asked));
    let answers = client.asks.session(request).await.unwrap().into_inner();
    (asks, answers)
}

fn hello(namespace: &str) -> SessionRequest {
    SessionRequest {
        id: 7,
        message: Some(Asked::Hello(Hello {
            caller: caller("i"),
            namespace: namespace.into(),
            subscribe: vec!["d".into()],
        })),
    }
}

async fn next(answers: &mut Answers) -> Result<Option<SessionResponse>, Status> {
    timeout(PATIENCE, answers.message())
        .await
        .expect("an answer")
}

#[tokio::test]
async fn a_session_is_looked_at_when_it_greets_and_for_each_namespace_it_names() {
    let service = service().await;
    let mut client = service.client().await;
    let (asks, mut answers) = session(&mut client, Client).await;
    asks.send(hello("other")).await.unwrap();
    let refused = next(&mut answers).await.unwrap().unwrap();
    let Some(Answered::Status(status)) = refused.message else {
        panic!("{refused:?}");
    };
    assert_eq!(Code::from_i32(status.code), Code::PermissionDenied);
    // The stream goes on, and what is allowed is answered.
    asks.send(hello("default")).await.unwrap();
    let update = next(&mut answers).await.unwrap().unwrap();
    assert!(
        matches!(update.message, Some(Answered::Update(_))),
        "{update:?}"
    );
    let requests =
        ["default", "other", "absent"].map(|namespace| holdoff_client::proto::AcquireRequest {
            namespace: namespace.into(),
            ..first("d")
        });
    let batch = AcquireBatch {
        requests: requests.to_vec(),
    };
    let message = Some(Asked::Acquire(batch));
    asks.send(SessionRequest { id: 8, message }).await.unwrap();
    let answer = next(&mut answers).await.unwrap().unwrap();
    let Some(Answered::Acquired(batch)) = answer.message else {
        panic!("{answer:?}");
    };
    let codes: Vec<i32> = batch
        .items
        .iter()
        .map(|item| match item.result.as_ref().unwrap() {
            acquire_item::Result::Response(_) => 0,
            acquire_item::Result::Status(status) => status.code,
        })
        .collect();
    assert_eq!(codes, [0, 7, 7]);
}

/// What leaves its namespace to a greeting that was refused is of no namespace that it may name.
#[tokio::test]
async fn a_session_that_was_turned_away_decides_and_counts_nothing_in_another_namespace() {
    let service = service().await;
    let mut client = service.client().await;
    let (asks, mut answers) = session(&mut client, Client).await;
    let ill = Asked::Hello(Hello {
        caller: caller(&"i".repeat(201)),
        ..Hello::default()
    });
    let elsewhere = hello("other").message.unwrap();
    for (greeting, named) in [(elsewhere, "namespace \"other\""), (ill, "caller.instance")] {
        let question = AcquireBatch {
            requests: vec![first("d")],
        };
        let report = ReportRequest {
            entries: vec![result(&[1], outcome(OutcomeKind::Success))],
            ..ReportRequest::default()
        };
        for message in [
            greeting,
            Asked::Acquire(question),
            Asked::Report(report),
            Asked::Subscribe(Subscribe::default()),
        ] {
            let message = Some(message);
            asks.send(SessionRequest { id: 7, message }).await.unwrap();
            let text = refusal_of(next(&mut answers).await.unwrap().unwrap());
            assert!(text.contains(named), "{text}");
        }
    }
    let get = signed(
        Viewer,
        GetDependencyRequest {
            dependency: "d".into(),
            ..GetDependencyRequest::default()
        },
    );
    let seen = client.operates.get_dependency(get).await.unwrap();
    assert!(!seen.into_inner().dependency.unwrap().live);
    asks.send(hello("default")).await.unwrap();
    let update = next(&mut answers).await.unwrap().unwrap();
    let is_update = matches!(update.message, Some(Answered::Update(_)));
    assert!(is_update, "{update:?}");
}

/// Of a whole message, or of the one question in it.
fn refusal_of(answer: SessionResponse) -> String {
    match answer.message {
        Some(Answered::Status(status)) => status.message,
        _ => item_status(answer).unwrap_err().message().to_owned(),
    }
}

/// One that never greets speaks of the default namespace, which may not be its own.
#[tokio::test]
async fn a_session_without_a_greeting_subscribes_to_nothing_of_others() {
    let service = service().await;
    let mut client = service.client().await;
    let (asks, mut answers) = session(&mut client, Elsewhere).await;
    let message = Some(Asked::Subscribe(Subscribe {
        add: vec!["d".into()],
        remove: Vec::new(),
    }));
    asks.send(SessionRequest { id: 1, message }).await.unwrap();
    let refused = next(&mut answers).await.unwrap().unwrap();
    let Some(Answered::Status(status)) = refused.message else {
        panic!("{refused:?}");
    };
    assert_eq!(Code::from_i32(status.code), Code::PermissionDenied);
}

#[tokio::test]
async fn a_revoked_token_ends_its_sessions_and_watches_within_five_seconds_and_no_others() {
    let service = service().await;
    let mut client = service.client().await;
    let (_asks, mut ended) = session(&mut client, Client).await;
    let watch = signed(Viewer, WatchDependenciesRequest::default());
    let watch = client.operates.watch_dependencies(watch).await.unwrap();
    let mut watch = watch.into_inner();
    let left = Keyring::parse(&access_file(&[Client, Revoked])).unwrap();
    let began = std::time::Instant::now();
    service.access.exchange(left);
    let told = next(&mut ended).await.unwrap_err();
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    assert_eq!(told.code(), Code::Unauthenticated);
    assert_eq!(
        told.get_details_error_info().unwrap().reason,
        "CREDENTIAL_ENDED"
    );
    // The viewer's token stands in both files: its watch goes on.
    let synced = timeout(PATIENCE, watch.message()).await.unwrap().unwrap();
    assert!(synced.is_some());
    let changed = access_file(&[Client, Revoked]).replace("{default: viewer}", "{default: client}");
    service.access.exchange(Keyring::parse(&changed).unwrap());
    let told = loop {
        match timeout(PATIENCE, watch.message()).await.unwrap() {
            Ok(message) => assert!(message.is_some()),
            Err(told) => break told,
        }
    };
    assert_eq!(
        told.code(),
        Code::Unavailable,
        "it may connect again: {told:?}"
    );
}

#[tokio::test]
async fn an_expired_token_ends_its_session_within_five_seconds() {
    let file = access_file(&[]).replace("2023-01-01", "2024-01-01");
    let service = Service::start_with(Setup {
        access: Some(&file),
        ..Setup::default()
    })
    .await;
    let mut client = service.client().await;
    let (_asks, mut ended) = session(&mut client, Expired).await;
    let began = std::time::Instant::now();
    // From November 2023 to the end of 2024.
    service.at_ms(400 * 24 * 3_600_000);
    let told = next(&mut ended).await.unwrap_err();
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    assert_eq!(told.code(), Code::Unauthenticated);
}

/// The table of the book. `BLESS=1` writes it; the difference is what is reviewed.
#[test]
fn the_book_shows_the_table_as_it_is() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/access.md");
    let (begin, end) = ("<!-- matrix: begin -->\n", "<!-- matrix: end -->\n");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).unwrap();
    let (shown, after) = rest.split_once(end).unwrap();
    let mut table = "| RPC | needs |\n|---|---|\n".to_owned();
    for method in Method::ALL {
        table.push_str(&format!(
            "| `{}` | {} |\n",
            &method.path()[1..],
            method.needs()
        ));
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert_eq!(shown, table, "BLESS=1 writes it anew");
    }
}
