//! Envoy's protocol, asked as Envoy asks: descriptors in, statuses, headers and metadata out.
//!
//! A real Envoy is asked in `deploy/envoy/test`.

use std::collections::BTreeMap;

use holdoff::proto::ratelimit::envoy::{
    extensions::common::ratelimit::v3::{
        RateLimitDescriptor,
        rate_limit_descriptor::{Entry, RateLimitOverride},
    },
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse,
        rate_limit_response::{Code as Said, DescriptorStatus, rate_limit::Unit},
        rate_limit_service_server::SERVICE_NAME,
    },
    r#type::v3::RateLimitUnit,
};
use holdoff_client::proto::{BreakerState, GetDependencyRequest, OutcomeKind, OverrideKind};
use prost_types::value::Kind;
use tonic::{Code, Status, client::Grpc, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use crate::{harness::*, overrides::forced};

/// What stands for Envoy.
struct Envoy(Grpc<Channel>);

impl Envoy {
    async fn of(service: &Service) -> Self {
        Self::of_worker(service, 0).await
    }

    async fn of_worker(service: &Service, worker: usize) -> Self {
        let channel = Channel::from_shared(service.urls[worker].clone()).unwrap();
        Self(Grpc::new(channel.connect().await.unwrap()))
    }

    async fn try_ask(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.0.ready().await.unwrap();
        let path = format!("/{SERVICE_NAME}/ShouldRateLimit");
        let path = path.parse().unwrap();
        let codec = tonic_prost::ProstCodec::default();
        let answered = self
            .0
            .unary(tonic::Request::new(request), path, codec)
            .await;
        answered.map(tonic::Response::into_inner)
    }

    /// Asks with the domain `default`.
    async fn ask(&mut self, descriptors: &[RateLimitDescriptor]) -> RateLimitResponse {
        let answer = self.try_ask(request("default", descriptors)).await.unwrap();
        assert_eq!(answer.statuses.len(), descriptors.len());
        let any_over = answer
            .statuses
            .iter()
            .any(|it| it.code() == Said::OverLimit);
        let overall = if any_over { Said::OverLimit } else { Said::Ok };
        assert_eq!(answer.overall_code(), overall);
        answer
    }

    async fn passes(&mut self, descriptor: &RateLimitDescriptor) -> bool {
        let answer = self.ask(std::slice::from_ref(descriptor)).await;
        answer.overall_code() == Said::Ok
    }
}

fn request(domain: &str, descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest {
        domain: domain.into(),
        descriptors: descriptors.to_vec(),
        hits_addend: 0,
    }
}

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry {
        key: (*key).into(),
        value: (*value).into(),
    };
    RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..Default::default()
    }
}

fn named(dependency: &str) -> RateLimitDescriptor {
    descriptor(&[("holdoff.dependency", dependency)])
}

fn reporting(dependency: &str) -> RateLimitDescriptor {
    descriptor(&[
        ("holdoff.dependency", dependency),
        ("holdoff.outcome", "later"),
    ])
}

fn told(permit: &str, code: &str) -> RateLimitDescriptor {
    descriptor(&[
        ("holdoff.permit", permit),
        ("holdoff.outcome", code),
        ("holdoff.flags", "-"),
        ("holdoff.duration_ms", "12"),
        ("holdoff.retry_after", "-"),
    ])
}

fn with_hits(mut descriptor: RateLimitDescriptor, hits: u64) -> RateLimitDescriptor {
    descriptor.hits_addend = Some(hits);
    descriptor
}

fn header<'a>(answer: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    let mut all = answer.response_headers_to_add.iter();
    all.find(|it| it.key == name).map(|it| it.value.as_str())
}

fn metadata(answer: &RateLimitResponse, name: &str) -> Option<String> {
    match answer
        .dynamic_metadata
        .as_ref()?
        .fields
        .get(name)?
        .kind
        .as_ref()?
    {
        Kind::StringValue(text) => Some(text.clone()),
        other => panic!("{name}: {other:?}"),
    }
}

fn left(status: &DescriptorStatus) -> u32 {
    status.limit_remaining
}

#[tokio::test]
async fn over_the_rate_envoy_is_told_with_the_limit_the_time_and_the_headers() {
    let service = Service::start(&policy_of_d("{rate: {per_second: 2, burst: 3}}")).await;
    let mut envoy = Envoy::of(&service).await;
    for remaining in [2, 1, 0] {
        let answer = envoy.ask(&[named("d")]).await;
        let status = &answer.statuses[0];
        assert_eq!((status.code(), left(status)), (Said::Ok, remaining));
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Second));
        assert_eq!(limit.name, "d");
        assert_eq!(header(&answer, "ratelimit-policy"), Some("\"d\";q=3;w=2"));
        assert_eq!(header(&answer, "retry-after"), None);
        assert!(answer.raw_body.is_empty());
    }
    let answer = envoy.ask(&[named("d")]).await;
    let status = &answer.statuses[0];
    assert_eq!(status.code(), Said::OverLimit);
    assert!(ms(status.duration_until_reset) >= 500.0);
    assert_eq!(header(&answer, "ratelimit"), Some("\"d\";r=0;t=2"));
    let seconds: u64 = header(&answer, "retry-after").unwrap().parse().unwrap();
    assert!(seconds >= 1 && seconds * 1_000 >= ms(status.duration_until_reset) as u64);
    assert_eq!(header(&answer, "x-holdoff-reason"), Some("RATE_LIMITED"));
    let body = String::from_utf8(answer.raw_body.clone()).unwrap();
    assert_eq!(
        body,
        format!("held off: RATE_LIMITED; try again in {seconds} s\n")
    );
    assert_eq!(metadata(&answer, "reason").unwrap(), "RATE_LIMITED");
    service.at_ms(500);
    assert!(envoy.passes(&named("d")).await);
    assert!(!envoy.passes(&named("d")).await);
}

#[tokio::test]
async fn what_others_report_opens_the_breaker_for_envoy_too() {
    let policy = policy_of_d("{breaker: {detect: window, window: 10, min_calls: 5, spread: 0s}}");
    let service = Service::start(&policy).await;
    let mut envoy = Envoy::of(&service).await;
    assert!(envoy.passes(&named("d")).await);
    service.client().await.trip("d", 5).await;
    let answer = envoy.ask(&[named("d")]).await;
    assert_eq!(answer.overall_code(), Said::OverLimit);
    assert_eq!(ms(answer.statuses[0].duration_until_reset), 10_000.0);
    assert_eq!(header(&answer, "retry-after"), Some("10"));
    assert_eq!(header(&answer, "x-holdoff-reason"), Some("BREAKER_OPEN"));
    assert_eq!(header(&answer, "ratelimit"), None);
    assert_eq!(metadata(&answer, "state").unwrap(), "OPEN");
    // A retry is told the same, not that it is no hedge.
    let retry = descriptor(&[("holdoff.dependency", "d"), ("holdoff.attempt", "2")]);
    let answer = envoy.ask(&[retry]).await;
    assert_eq!(header(&answer, "x-holdoff-reason"), Some("BREAKER_OPEN"));
    assert_eq!(header(&answer, "retry-after"), Some("10"));
}

#[tokio::test]
async fn an_operator_who_forces_the_breaker_is_obeyed_without_a_time() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let order = forced("d", OverrideKind::ForceOpen);
    client.operates.set_override(order).await.unwrap();
    let mut envoy = Envoy::of(&service).await;
    let answer = envoy.ask(&[named("d")]).await;
    assert_eq!(header(&answer, "x-holdoff-reason"), Some("FORCED_OPEN"));
    assert_eq!(header(&answer, "retry-after"), None);
    assert_eq!(answer.raw_body, b"held off: FORCED_OPEN\n");
}

#[tokio::test]
async fn a_denial_consumes_nothing_of_any_descriptor() {
    let policies = "version: 1\nnamespaces: {default: {dependencies: {\
        a: {rate: {per_second: 1, burst: 5}}, b: {rate: {per_second: 1, burst: 1}}}}}";
    let service = Service::start(policies).await;
    let mut envoy = Envoy::of(&service).await;
    let both = [named("a"), named("b"), named("a")];
    let answer = envoy.ask(&both).await;
    let codes: Vec<Said> = answer.statuses.iter().map(|it| it.code()).collect();
    assert_eq!(codes, [Said::Ok; 3]);
    // The same dependency twice in one call is one call.
    assert_eq!(left(&answer.statuses[0]), 4);
    assert_eq!(answer.statuses[0], answer.statuses[2]);
    for _ in 0..3 {
        let answer = envoy.ask(&both).await;
        let codes: Vec<Said> = answer.statuses.iter().map(|it| it.code()).collect();
        assert_eq!(codes, [Said::Ok, Said::OverLimit, Said::Ok]);
        assert_eq!(left(&answer.statuses[0]), 4);
    }
    let mut client = service.client().await;
    assert_eq!(client.get("a").await.first_attempts, 1);
    assert_eq!(client.get("b").await.first_attempts, 1);
}

#[tokio::test]
async fn retries_ask_the_budget_and_first_attempts_do_not() {
    let policy = policy_of_d("{budget: {ratio: 0.5, floor_per_second: 0, max_caller_share: 1}}");
    let service = Service::start(&policy).await;
    let mut envoy = Envoy::of(&service).await;
    for _ in 0..4 {
        assert!(envoy.passes(&named("d")).await);
    }
    let retry =
        |attempt: &str| descriptor(&[("holdoff.dependency", "d"), ("holdoff.attempt", attempt)]);
    assert!(envoy.passes(&retry("2")).await);
    assert!(envoy.passes(&retry("3")).await);
    let answer = envoy.ask(&[retry("2")]).await;
    assert_eq!(
        header(&answer, "x-holdoff-reason"),
        Some("BUDGET_EXHAUSTED")
    );
    assert!(envoy.passes(&retry("1")).await);
    let answer = envoy.ask(&[retry("4")]).await;
    assert_eq!(
        header(&answer, "x-holdoff-reason"),
        Some("ATTEMPTS_EXHAUSTED")
    );
}

#[tokio::test]
async fn the_record_counts_each_refusal_by_the_reason_that_is_told() {
    let policy = policy_of_d(
        "{rate: {per_second: 1, burst: 4}, \
          budget: {ratio: 0.5, floor_per_second: 0, max_caller_share: 1}}",
    );
    let service = Service::start(&policy).await;
    let (mut envoy, mut client) = (Envoy::of(&service).await, service.client().await);
    let retry =
        |attempt: &str| descriptor(&[("holdoff.dependency", "d"), ("holdoff.attempt", attempt)]);
    let mut told = BTreeMap::<String, u64>::new();
    for forces in [false, true] {
        if forces {
            let order = forced("d", OverrideKind::ForceOpen);
            client.operates.set_override(order).await.unwrap();
        }
        for asked in [
            vec![named("d")],
            vec![named("d"), named("e")],
            vec![retry("2")],
            vec![retry("2")],
            vec![retry("9999")],
            vec![named("d")],
            vec![named("d")],
            vec![named("e"), named("d")],
            vec![retry("9999"), named("e")],
        ] {
            let answer = envoy.ask(&asked).await;
            if let Some(reason) = header(&answer, "x-holdoff-reason") {
                *told.entry(reason.to_owned()).or_default() += 1;
            }
        }
    }
    for reason in [
        "ATTEMPTS_EXHAUSTED",
        "BUDGET_EXHAUSTED",
        "FORCED_OPEN",
        "RATE_LIMITED",
    ] {
        assert!(told.contains_key(reason), "{told:?}");
    }
    let d = client.get("d").await;
    let counted = d.denials.iter().map(|it| {
        let name = it.reason().as_str_name();
        let reason = name.strip_prefix("DENIAL_REASON_").unwrap();
        (reason.to_owned(), it.count)
    });
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), told);
}

#[tokio::test]
async fn an_envoy_that_does_not_report_is_no_evidence() {
    for detector in [
        "{}",
        "{detect: window, window: 10s, min_calls: 5, slow_ratio: 0.5, slow_after: 1s}",
    ] {
        let service = Service::start(&policy_of_d(&format!("{{breaker: {detector}}}"))).await;
        let mut envoy = Envoy::of(&service).await;
        for step in 0..300 {
            service.at_ms(step * 1_000);
            assert!(envoy.passes(&named("d")).await, "{detector} at {step} s");
        }
        let d = service.client().await.get("d").await;
        assert_eq!(
            (d.state(), d.permits_out, d.trips),
            (BreakerState::Closed, 0, 0)
        );
    }
}

#[tokio::test]
async fn beside_an_envoy_that_does_not_report_one_client_is_evidence_enough() {
    let policy =
        policy_of_d("{breaker: {detect: window, window: 10, min_calls: 5, min_reporters: 2}}");
    let service = Service::start(&policy).await;
    let (mut envoy, mut client) = (Envoy::of(&service).await, service.client().await);
    for _ in 0..5 {
        assert!(envoy.passes(&named("d")).await);
        let grant = client.granted(first_of("d", "only")).await;
        client.reported(&grant.permit, OutcomeKind::Failure).await;
    }
    assert!(!envoy.passes(&named("d")).await);
}

#[tokio::test]
async fn an_envoy_that_reports_feeds_the_breaker_by_itself() {
    let policy = policy_of_d(
        "{breaker: {detect: window, window: 10, min_calls: 5, open_for: 10s, spread: 0s, \
         probe_successes: 2, probe_lease: 5s}, ramp: {start: 1}}",
    );
    let service = Service::start(&policy).await;
    let mut envoy = Envoy::of(&service).await;
    let mut permit = String::new();
    for _ in 0..5 {
        let answer = envoy.ask(&[reporting("d")]).await;
        permit = metadata(&answer, "permit").unwrap();
        assert!(envoy.passes(&told(&permit, "503")).await);
    }
    // What is told twice counts once, and is no error of Envoy's.
    assert!(envoy.passes(&told(&permit, "200")).await);
    let mut client = service.client().await;
    assert_eq!(client.get("d").await.state(), BreakerState::Open);
    let answer = envoy.ask(&[reporting("d")]).await;
    assert_eq!(header(&answer, "x-holdoff-reason"), Some("BREAKER_OPEN"));
    assert_eq!(metadata(&answer, "permit"), None);

    service.at_ms(10_001);
    for _ in 0..2 {
        let probe = envoy.ask(&[reporting("d")]).await;
        assert_eq!(probe.overall_code(), Said::Ok);
        let answer = envoy.ask(&[reporting("d")]).await;
        assert_eq!(
            header(&answer, "x-holdoff-reason"),
            Some("PROBE_IN_PROGRESS")
        );
        let permit = metadata(&probe, "permit").unwrap();
        assert!(envoy.passes(&told(&permit, "200")).await);
    }
    assert_eq!(client.get("d").await.state(), BreakerState::Closed);
    assert_eq!(client.get("d").await.permits_out, 0);
}

#[tokio::test]
async fn at_most_the_probes_pass_also_where_envoy_never_tells_how_they_ended() {
    let policy = policy_of_d(
        "{breaker: {detect: window, window: 10, min_calls: 5, open_for: 10s, spread: 0s, probe_lease: 5s}}",
    );
    let service = Service::start(&policy).await;
    service.client().await.trip("d", 5).await;
    let mut envoy = Envoy::of(&service).await;
    for (at_ms, passes) in [
        (10_001, true),
        (10_002, false),
        (15_000, false),
        (15_002, true),
        (15_003, false),
    ] {
        service.at_ms(at_ms);
        assert_eq!(envoy.passes(&named("d")).await, passes, "at {at_ms} ms");
    }
}

#[tokio::test]
async fn a_hold_denies_envoy_which_cannot_wait() {
    let service = Service::start(&policy_of_d("{pushback: {scope: dependency, spread: 0s}}")).await;
    let mut envoy = Envoy::of(&service).await;
    let answer = envoy.ask(&[reporting("d")]).await;
    let throttled = descriptor(&[
        ("holdoff.permit", &metadata(&answer, "permit").unwrap()),
        ("holdoff.outcome", "429"),
        ("holdoff.retry_after", "7"),
    ]);
    assert!(envoy.passes(&throttled).await);
    let answer = envoy.ask(&[named("d")]).await;
    assert_eq!(header(&answer, "x-holdoff-reason"), Some("HELD"));
    assert_eq!(header(&answer, "retry-after"), Some("7"));
    service.at_ms(7_000);
    assert!(envoy.passes(&named("d")).await);
}

#[tokio::test]
async fn hits_are_counted_as_envoy_means_them() {
    let service = Service::start(&policy_of_d("{rate: {per_second: 1, burst: 10}}")).await;
    let mut envoy = Envoy::of(&service).await;
    let mut of_request = request("default", &[named("d")]);
    of_request.hits_addend = 3;
    let answer = envoy.try_ask(of_request).await.unwrap();
    assert_eq!(left(&answer.statuses[0]), 7);
    // A descriptor's own hits win, and nothing is none.
    let mut own = request("default", &[with_hits(named("d"), 2)]);
    own.hits_addend = 9;
    assert_eq!(left(&envoy.try_ask(own).await.unwrap().statuses[0]), 5);
    assert_eq!(
        left(&envoy.ask(&[with_hits(named("d"), 0)]).await.statuses[0]),
        5
    );
    assert_eq!(left(&envoy.ask(&[named("d")]).await.statuses[0]), 4);
    assert!(!envoy.passes(&with_hits(named("d"), 5)).await);
    let mut refund = with_hits(named("d"), 3);
    refund.is_negative_hits = true;
    assert_eq!(left(&envoy.ask(&[refund]).await.statuses[0]), 7);

    // What a call turned out to use is owed, also beyond the burst.
    let asked = envoy.ask(&[with_hits(reporting("d"), 0)]).await;
    let permit = metadata(&asked, "permit").unwrap();
    let mut used = told(&permit, "200");
    used.entries.extend(named("d").entries);
    let counted = envoy.ask(&[with_hits(used, 12)]).await;
    assert_eq!(
        (counted.overall_code(), left(&counted.statuses[0])),
        (Said::Ok, 0)
    );
    assert!(!envoy.passes(&with_hits(named("d"), 0)).await);
    service.at_ms(5_000);
    assert!(envoy.passes(&with_hits(named("d"), 0)).await);
    assert!(!envoy.passes(&named("d")).await);
}

#[tokio::test]
async fn a_limit_in_the_descriptor_stands_in_for_the_policys() {
    let service = Service::start(&policy_of_d("{rate: {per_second: 1000}}")).await;
    let mut envoy = Envoy::of(&service).await;
    for name in ["d", "without-a-rate"] {
        let mut limited = named(name);
        limited.limit = Some(RateLimitOverride {
            requests_per_unit: 2,
            unit: RateLimitUnit::Minute.into(),
        });
        let answer = envoy.ask(std::slice::from_ref(&limited)).await;
        let limit = answer.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Minute));
        assert!(envoy.passes(&limited).await);
        assert!(!envoy.passes(&limited).await, "{name}");
    }
    let mut never = named("never");
    never.limit = Some(RateLimitOverride {
        requests_per_unit: 0,
        unit: RateLimitUnit::Year.into(),
    });
    let answer = envoy.ask(&[never]).await;
    assert_eq!(answer.overall_code(), Said::OverLimit);
    assert_eq!(header(&answer, "retry-after"), None);
}

#[tokio::test]
async fn descriptors_are_named_by_the_policy_and_what_no_rule_is_for_passes() {
    let policies = "version: 1\nnamespaces:\n  default:\n    dependencies:\n      \"clusters/*\": {rate: {per_second: 1, burst: 1}}\n    envoy:\n      destination_cluster: \"clusters/{destination_cluster}\"\n      \"destination_cluster=a*, path\": \"clusters/a{path}\"\n";
    let service = Service::start(policies).await;
    let mut envoy = Envoy::of(&service).await;
    let cluster = |name: &str| descriptor(&[("destination_cluster", name)]);
    assert!(envoy.passes(&cluster("web")).await);
    assert!(!envoy.passes(&cluster("web")).await);
    assert!(envoy.passes(&cluster("api")).await);
    assert!(
        envoy
            .passes(&descriptor(&[
                ("destination_cluster", "api"),
                ("path", "/x")
            ]))
            .await
    );
    for _ in 0..3 {
        let answer = envoy
            .ask(&[descriptor(&[("remote_address", "10.0.0.1")])])
            .await;
        assert_eq!(answer.statuses[0].current_limit, None);
    }
    assert_eq!(service.coordinator.dependencies(), 3);
    let mut client = service.client().await;
    for name in ["clusters/web", "clusters/api", "clusters/a/x"] {
        assert!(client.get(name).await.live, "{name}");
    }
}

#[tokio::test]
async fn without_rules_a_dependency_is_named_by_its_entries() {
    let service = Service::start("version: 1\nnamespaces: {shop: {}}").await;
    let mut envoy = Envoy::of(&service).await;
    let one = descriptor(&[
        ("destination_cluster", "payments"),
        ("holdoff.attempt", "1"),
        ("generic_key", "cheap"),
    ]);
    let answer = envoy.try_ask(request("shop", &[one])).await.unwrap();
    assert_eq!(answer.overall_code(), Said::Ok);
    let mut client = service.client().await;
    let get = GetDependencyRequest {
        namespace: "shop".into(),
        dependency: "destination_cluster:payments/generic_key:cheap".into(),
        ..Default::default()
    };
    assert!(client.operates.get_dependency(get).await.is_ok());
}

#[tokio::test]
async fn what_cannot_be_decided_is_an_error_and_never_over_limit() {
    let policies =
        "version: 1\nnamespaces: {default: {max_dependencies: 1}, closed: {auto_create: false}}";
    let service = Service::start(policies).await;
    let mut envoy = Envoy::of(&service).await;
    assert!(envoy.passes(&named("only")).await);
    let refused: Vec<(RateLimitRequest, Code, &str)> = vec![
        (request("", &[named("d")]), Code::InvalidArgument, "domain"),
        (
            request("a b", &[named("d")]),
            Code::InvalidArgument,
            "domain",
        ),
        (request("nowhere", &[named("d")]), Code::NotFound, "nowhere"),
        (
            request("nowhere", &[descriptor(&[("k", "v")])]),
            Code::NotFound,
            "nowhere",
        ),
        (request("closed", &[named("d")]), Code::NotFound, "d"),
        (
            request("default", &[]),
            Code::InvalidArgument,
            "descriptors",
        ),
        (
            request("default", &[descriptor(&[])]),
            Code::InvalidArgument,
            "descriptors[0].entries",
        ),
        (
            request("default", &[named("only"), descriptor(&[])]),
            Code::InvalidArgument,
            "descriptors[1].entries",
        ),
        (
            request("default", &[descriptor(&[("holdoff.attempt", "1")])]),
            Code::InvalidArgument,
            "holdoff.dependency",
        ),
        (
            request(
                "default",
                &[descriptor(&[
                    ("holdoff.dependency", "only"),
                    ("holdoff.dependency", "-"),
                ])],
            ),
            Code::InvalidArgument,
            "twice",
        ),
        (
            request("default", &[descriptor(&[("holdoff.atempt", "1")])]),
            Code::InvalidArgument,
            "holdoff.atempt",
        ),
        (
            request(
                "default",
                &[descriptor(&[("k", "v"), ("holdoff.outcome", "200")])],
            ),
            Code::InvalidArgument,
            "holdoff.permit",
        ),
        (
            request("default", &[told("%%", "200")]),
            Code::InvalidArgument,
            "holdoff.permit",
        ),
        (
            request("default", &[told("AAAA", "ok")]),
            Code::InvalidArgument,
            "holdoff.outcome",
        ),
        (
            request("default", &[named("only"), named("full")]),
            Code::ResourceExhausted,
            "max_dependencies",
        ),
    ];
    for (request, code, named) in refused {
        let status = envoy.try_ask(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(
            status.message().contains(named),
            "{named}: {}",
            status.message()
        );
        assert!(status.get_details_error_info().is_some(), "{named}");
    }
    let mut unit = named("only");
    unit.limit = Some(RateLimitOverride::default());
    let status = envoy
        .try_ask(request("default", &[unit]))
        .await
        .unwrap_err();
    assert_refused(&status, "descriptors[0].limit.unit");
    // None of those that named it was counted.
    assert_eq!(service.client().await.get("only").await.first_attempts, 1);
}

/// What a stranger may put into a header, a path or a query that becomes a value.
fn values_of_strangers() -> Vec<String> {
    let odd = [
        "", "-", "abc", "0", "-1", "1", " 2", "2", "2, 2", "1.5", "1000001", "ü\u{7f}", "a b?c=d",
        "%00", "NaN", "true", "later", "null",
    ];
    let long = [200, 201, 5_000].into_iter();
    let long = long.flat_map(|length| ["1", "x", "ü"].map(|text| text.repeat(length)));
    odd.into_iter().map(str::to_owned).chain(long).collect()
}

#[tokio::test]
async fn no_value_that_a_stranger_may_write_decides_whether_a_question_is_answered() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let order = forced("shut", OverrideKind::ForceOpen);
    client.operates.set_override(order).await.unwrap();
    let mut envoy = Envoy::of(&service).await;
    for value in values_of_strangers() {
        for key in
            ["attempt", "caller", "instance", "retry_after"].map(|it| format!("holdoff.{it}"))
        {
            let mut asked = reporting("shut");
            asked.entries.extend(descriptor(&[(&key, &value)]).entries);
            assert!(!envoy.passes(&asked).await, "{key} {value:?}");
        }
        // Neither what it makes of a name of its own beside the question.
        for beside in [
            named(&value),
            descriptor(&[("k", &value)]),
            descriptor(&[("k", "v"), ("holdoff.dependency", &value)]),
        ] {
            let answer = envoy.ask(&[named("shut"), beside]).await;
            assert_eq!(answer.overall_code(), Said::OverLimit, "{value:?}");
        }
    }
    assert!(!envoy.passes(&with_hits(named("shut"), u64::MAX)).await);
}

#[tokio::test]
async fn an_attempt_that_cannot_be_read_is_the_first_and_one_too_great_is_the_greatest() {
    let policy = policy_of_d("{budget: {ratio: 0, floor_per_second: 0}}");
    let service = Service::start(&policy).await;
    let mut envoy = Envoy::of(&service).await;
    let asked =
        |attempt: &str| descriptor(&[("holdoff.dependency", "d"), ("holdoff.attempt", attempt)]);
    for first in ["", "-", "abc", "0", "-1", "1", "2, 2", "1.5", "+2"] {
        assert!(envoy.passes(&asked(first)).await, "{first:?}");
    }
    for retry in ["2", " 2 ", "1000001", &"9".repeat(300)] {
        assert!(!envoy.passes(&asked(retry)).await, "{retry:?}");
    }
}

#[tokio::test]
async fn what_no_name_may_hold_is_an_underscore_in_the_name() {
    let service = Service::start("version: 1").await;
    let mut envoy = Envoy::of(&service).await;
    let long = "x".repeat(201);
    for (written, name) in [
        ("a b?c", "a_b_c"),
        ("zürich", "z_rich"),
        ("", "-"),
        ("-", "-"),
        (long.as_str(), &long[..200]),
    ] {
        assert!(envoy.passes(&named(written)).await, "{written:?}");
        let d = service.client().await.get(name).await;
        assert!(d.live, "{written:?} is not {name}");
    }
}

#[tokio::test]
async fn no_odd_detail_of_a_report_throws_its_outcome_away() {
    let policies = "version: 1\nnamespaces: {default: {defaults: \
        {breaker: {detect: window, window: 10, min_calls: 1, spread: 0s}}}}";
    let service = Service::start(policies).await;
    let mut envoy = Envoy::of(&service).await;
    let mut client = service.client().await;
    for (index, value) in values_of_strangers().into_iter().enumerate() {
        for key in [
            "flags",
            "duration_ms",
            "retry_after",
            "caller",
            "instance",
            "attempt",
        ] {
            let name = format!("{key}-{index}");
            let asked = envoy.ask(&[reporting(&name)]).await;
            let permit = metadata(&asked, "permit").unwrap();
            let key = format!("holdoff.{key}");
            let ended = descriptor(&[
                ("holdoff.permit", &permit),
                ("holdoff.outcome", "503"),
                (&key, &value),
            ]);
            assert!(envoy.passes(&ended).await, "{key} {value:?}");
            let d = client.get(&name).await;
            assert_eq!(
                (d.state(), d.permits_out),
                (BreakerState::Open, 0),
                "{key} {value:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_stream_that_lasted_longer_than_a_day_counts_as_a_day() {
    let policy = policy_of_d(
        "{breaker: {detect: window, window: 10, min_calls: 2, slow_ratio: 0.5, slow_after: 1s}}",
    );
    let service = Service::start(&policy).await;
    let mut envoy = Envoy::of(&service).await;
    for took in ["86400001", "99999999999999999999"] {
        let asked = envoy.ask(&[reporting("d")]).await;
        let ended = descriptor(&[
            ("holdoff.permit", &metadata(&asked, "permit").unwrap()),
            ("holdoff.outcome", "200"),
            ("holdoff.duration_ms", took),
        ]);
        assert!(envoy.passes(&ended).await, "{took}");
    }
    assert!(
        !envoy.passes(&named("d")).await,
        "slow calls open the breaker"
    );
}

#[tokio::test]
async fn a_permit_that_is_not_ours_is_answered_and_counts_nothing() {
    let service = Service::start("version: 1").await;
    let mut envoy = Envoy::of(&service).await;
    assert!(envoy.passes(&told("AAAA", "503")).await);
    assert_eq!(service.coordinator.dependencies(), 0);
}

#[tokio::test]
async fn a_namespace_that_is_off_lets_every_call_of_envoy_through() {
    let policies = "version: 1\nnamespaces: {default: {mode: off, dependencies: {d: {rate: {per_second: 1, burst: 1}}}}}";
    let service = Service::start(policies).await;
    let mut envoy = Envoy::of(&service).await;
    for _ in 0..5 {
        assert!(envoy.passes(&named("d")).await);
        assert!(envoy.passes(&reporting("d")).await);
    }
}

#[tokio::test]
async fn shadow_lets_through_what_enforce_would_refuse() {
    let policy = policy_of_d("{breaker: {mode: shadow, detect: window, window: 10, min_calls: 5}}");
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    for _ in 0..9 {
        client.call("d", OutcomeKind::Failure).await;
    }
    assert_eq!(client.get("d").await.shadow_state(), BreakerState::Open);
    let mut envoy = Envoy::of(&service).await;
    assert!(envoy.passes(&named("d")).await);
}

#[tokio::test]
async fn envoys_health_check_finds_the_service_by_its_name() {
    let service = Service::start("version: 1").await;
    let channel = Channel::from_shared(service.urls[0].clone()).unwrap();
    let mut health = HealthClient::new(channel.connect().await.unwrap());
    let service = SERVICE_NAME.into();
    let answer = health.check(HealthCheckRequest { service }).await.unwrap();
    assert_eq!(answer.into_inner().status, 1);
}

#[tokio::test]
async fn however_many_ask_at_once_what_is_denied_is_charged_nowhere() {
    let policies = "version: 1\nnamespaces: {default: {dependencies: {\
        wide: {rate: {per_second: 1, burst: 1000}}, narrow: {rate: {per_second: 1, burst: 100}}}}}";
    let service = Service::start_with(Setup {
        policies,
        workers: 2,
        ..Setup::default()
    })
    .await;
    let mut asking = Vec::new();
    for index in 0..8 {
        let mut envoy = Envoy::of_worker(&service, index % 2).await;
        asking.push(tokio::spawn(async move {
            let mut passed = 0;
            for _ in 0..40 {
                let both = [named("wide"), named("narrow")];
                let answer = envoy.ask(&both).await;
                passed += u32::from(answer.overall_code() == Said::Ok);
            }
            passed
        }));
    }
    let mut passed = 0;
    for task in asking {
        passed += task.await.unwrap();
    }
    assert_eq!(passed, 100);
    let mut envoy = Envoy::of(&service).await;
    let look = [with_hits(named("wide"), 0), with_hits(named("narrow"), 0)];
    let answer = envoy.ask(&look).await;
    assert_eq!(
        answer.statuses.iter().map(left).collect::<Vec<_>>(),
        [900, 0]
    );
}
