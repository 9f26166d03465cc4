//! What one decision costs in process: rules, store and permit, without the wire.
//!
//! `cargo bench --bench decision`

use std::{
    future::Future,
    hint::black_box,
    pin::pin,
    sync::{Arc, Barrier},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant, SystemTime},
};

use criterion::{Criterion, criterion_group, criterion_main};
use holdoff::{
    clock::Clock,
    coordinator::{
        Actor, Caller, Coordinator, Decision, Entry, Inquiry, Key, Made, Parts, Subject,
    },
    durable::{Durable, PermitKey, Start},
    entropy::Entropy,
    policy::Source,
    recording::RecordingSettings,
    store::MemoryStore,
    telemetry::{Method, Otlp, Switches, attribute},
};
use holdoff_decision::{
    Ask, Outcome, OutcomeKind, Policy, Question, Record, Sample, Time, acquire, calendar::Priority,
    record, report,
};

type Service = Coordinator<MemoryStore>;

const CALLER: Caller<'static> = Caller {
    service: "checkout",
    instance: "checkout-7f9c-1",
};

/// A future of the memory store is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the memory store never waits"),
    }
}

fn service(policies: &str) -> Service {
    let sources = match policies {
        "" => Vec::new(),
        text => vec![Source {
            name: "bench.yaml".into(),
            text: text.into(),
        }],
    };
    let start = Start {
        wall_now: SystemTime::now(),
        fresh_permit_key: PermitKey([7; 16]),
    };
    let parts = Parts {
        store: MemoryStore::default(),
        clock: Clock::system(),
        entropy: Entropy::System,
        opened: Durable::in_memory(start),
    };
    now(Coordinator::start(parts, sources))
        .expect("the policies are valid")
        .coordinator
}

fn ask(service: &Service, dependency: &str, subject: Subject<'_>) -> Decision {
    let inquiry = Inquiry {
        key: Key {
            namespace: "default",
            dependency,
        },
        caller: CALLER,
        subject,
        call_id: "",
        idempotent: true,
        time_left: None,
        cost: 1,
        priority: Priority::Normal,
    };
    now(service.acquire(&inquiry)).expect("a decision")
}

fn end(service: &Service, decision: &Decision) {
    let permit = decision.permit.as_ref().expect("a grant");
    let entry = Entry::Permit(permit, Outcome::of(OutcomeKind::Success));
    black_box(now(service.report("default", CALLER, &[entry], 0)).expect("a result"));
}

fn rules(bench: &mut Criterion) {
    let policy = Policy::default();
    let question = Ask {
        question: Question::First,
        caller: 1,
        service: 1,
        call: None,
        idempotent: true,
        time_left: None,
        cost: 1,
        priority: Priority::Normal,
    };
    bench.bench_function("rules alone: first attempt and its success", |bench| {
        let mut record = Record::new(1, Time(1));
        let mut time = 1_u64 << 60;
        bench.iter(|| {
            time += 1_000;
            let sample = Sample::default();
            let context = record::Context {
                now: Time(time),
                sample,
                restarted: None,
            };
            let answer = acquire(&policy, &mut record, black_box(&question), &context);
            let permit = answer.verdict.expect("a grant").permit;
            report(
                &policy,
                &mut record,
                &permit,
                &Outcome::of(OutcomeKind::Success),
                1,
                &context,
            )
        });
    });
}

fn one_hot_dependency(bench: &mut Criterion) {
    let hot = service("");
    bench.bench_function("one hot dependency: first attempt", |bench| {
        bench.iter(|| black_box(ask(&hot, "payments", Subject::First)));
    });
    let pairs = service("");
    bench.bench_function(
        "one hot dependency: first attempt and its success",
        |bench| {
            bench.iter(|| end(&pairs, &ask(&pairs, "payments", Subject::First)));
        },
    );
    let plenty = "{version: 1, namespaces: {default: {defaults: \
                  {budget: {floor_per_second: 1000000}, breaker: {mode: off}}}}}";
    let retries = service(plenty);
    bench.bench_function(
        "one hot dependency: first attempt, its failure and the retry",
        |bench| {
            bench.iter(|| {
                let first = ask(&retries, "payments", Subject::First);
                let made = Made::Permit(first.permit.as_ref().expect("a grant"));
                let outcome = Outcome::of(OutcomeKind::Failure);
                black_box(ask(
                    &retries,
                    "payments",
                    Subject::Retry {
                        attempt: 2,
                        made,
                        outcome,
                    },
                ))
            });
        },
    );
    let open = service("");
    for _ in 0..5 {
        let first = ask(&open, "payments", Subject::First);
        let entry = Entry::Permit(
            first.permit.as_ref().expect("a grant"),
            Outcome::of(OutcomeKind::Failure),
        );
        now(open.report("default", CALLER, &[entry], 0)).expect("a result");
    }
    bench.bench_function("one hot dependency: open breaker", |bench| {
        bench.iter(|| black_box(ask(&open, "payments", Subject::First)));
    });
}

/// What is told of each decision beside its path: to a candidate policy, to a recording, to both.
fn observed(bench: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    for (title, has_candidate, is_recorded) in [
        ("nobody", false, false),
        ("a candidate", true, false),
        ("a recording", false, true),
        ("a candidate and a recording", true, true),
    ] {
        let mut service = service("");
        if has_candidate {
            let actor = Actor {
                owner: "bench",
                reason: "to be measured",
            };
            let document = "{budget: {ratio: 0.1}}";
            let put = service.put_candidate("default", "payments", document, actor);
            runtime().block_on(put).expect("a candidate");
        }
        if is_recorded {
            let settings = RecordingSettings {
                folder: folder.path().join(title.replace(' ', "-")),
                max_bytes: 256 << 20,
                files: 8,
            };
            service.record_to(settings).expect("a recording");
        }
        let title = format!("watched by {title}: first attempt and its success");
        bench.bench_function(&title, |bench| {
            bench.iter(|| end(&service, &ask(&service, "payments", Subject::First)));
        });
        service.end_recording();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime")
}

fn many_dependencies(bench: &mut Criterion) {
    for count in [1_000_usize, 1_000_000] {
        let limits = "{version: 1, max_dependencies_total: 2000000, \
                      namespaces: {default: {max_dependencies: 1000000}}}";
        let service = service(limits);
        let names: Vec<String> = (0..count)
            .map(|index| format!("dependency/{index:09}"))
            .collect();
        for name in &names {
            end(&service, &ask(&service, name, Subject::First));
        }
        let mut next = 0_usize;
        let title = format!("{count} dependencies: first attempt and its success");
        bench.bench_function(&title, |bench| {
            bench.iter(|| {
                next = (next + 7_919) % count;
                end(&service, &ask(&service, &names[next], Subject::First));
            });
        });
    }
}

/// Decisions per second of `threads` threads together, each on its own dependencies.
fn throughput(service: &Arc<Service>, threads: usize) -> f64 {
    const RUN: Duration = Duration::from_millis(700);
    let barrier = Arc::new(Barrier::new(threads));
    let workers: Vec<_> = (0..threads)
        .map(|worker| {
            let (service, barrier) = (Arc::clone(service), Arc::clone(&barrier));
            thread::spawn(move || {
                let names: Vec<String> = (0..1000).map(|name| format!("{worker}/{name}")).collect();
                barrier.wait();
                let (start, mut made) = (Instant::now(), 0_u64);
                while start.elapsed() < RUN {
                    for name in &names {
                        end(&service, &ask(&service, name, Subject::First));
                    }
                    made += names.len() as u64;
                }
                made as f64 / start.elapsed().as_secs_f64()
            })
        })
        .collect();
    workers
        .into_iter()
        .map(|worker| worker.join().expect("it does not panic"))
        .sum()
}

fn two_threads(_: &mut Criterion) {
    let service = Arc::new(service(""));
    let mut ratios: Vec<f64> = (0..7)
        .map(|_| throughput(&service, 2) / throughput(&service, 1))
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "two threads over one, 1,000 dependencies each: median {:.2} times (7 runs)",
        ratios[3]
    );
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// A question as it is told: the decision, its RPC's count and time, and a span where somebody
/// wants one. Nobody listens where the collector is said to be, so all that is sent is lost.
fn telling(bench: &mut Criterion) {
    const ACQUIRE: &str = "holdoff.v1.CoordinatorService/Acquire";
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let sampler = ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
    let cases: [(&str, Variables<'_>, Option<&str>); 5] = [
        ("off", &[], None),
        ("on, no trace", &[endpoint], None),
        ("on, a trace that is not sampled", &[endpoint], Some("00")),
        (
            "on, 1 % of the calls",
            &[endpoint, sampler, ("OTEL_TRACES_SAMPLER_ARG", "0.01")],
            None,
        ),
        ("on, a trace that is sampled", &[endpoint], Some("01")),
    ];
    for (title, environment, flags) in cases {
        let service = service("");
        let telemetry = Arc::clone(service.telemetry());
        let read = |name: &str| {
            let set = environment.iter().find(|(known, _)| *known == name);
            set.map(|(_, value)| (*value).to_owned())
        };
        if let Some(switches) = Switches::read(read).expect("they are valid") {
            let otlp = Otlp::start(switches, &telemetry, Vec::new).expect("it starts");
            telemetry.attach(otlp);
        }
        let mut headers = http::HeaderMap::new();
        if let Some(flags) = flags {
            let parent = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
            headers.insert("traceparent", parent.parse().expect("ASCII"));
        }
        bench.bench_function(&format!("told, {title}: first attempt"), |bench| {
            bench.iter(|| {
                let began = service.clock().now();
                let mut span = telemetry.span(ACQUIRE, Some(&headers));
                let decision = black_box(ask(&service, "payments", Subject::First));
                if span.is_wanted() {
                    span.set(attribute::DEPENDENCY, "payments");
                    span.set(attribute::VERDICT, "granted");
                    span.set(attribute::REASON, "first");
                    span.set(attribute::STATE, "closed");
                }
                span.end(Ok(()));
                let took = began.until(service.clock().now());
                telemetry.rpc(Method::of(ACQUIRE), 0, took.into());
                decision
            });
        });
        telemetry.end();
    }
}

criterion_group!(
    decisions,
    rules,
    telling,
    one_hot_dependency,
    observed,
    many_dependencies,
    two_threads
);
criterion_main!(decisions);
