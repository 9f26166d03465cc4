//! What a guarded call costs where no question is needed, beside a breaker and retries of the
//! process's own (`tower-resilience`). Printed, and asserted nowhere:
//! the time of a test depends on its machine. `cargo test --release -p holdoff-client cost --
//! --nocapture`

use std::time::{Duration, Instant};

use holdoff_client::{HoldoffLayer, Outcome, Question, Safety};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_resilience_circuitbreaker::{CircuitBreakerError, CircuitBreakerLayer};
use tower_resilience_retry::RetryLayer;

use crate::server::{Scripted, go};

const CALLS: u32 = 100_000;

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_guarded_call_on_pushed_state() {
    let service = Scripted::granting();
    service.pushes(go(1));
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let question = Question::new("payments").safety(Safety::Idempotent);

    let begun = Instant::now();
    for _ in 0..CALLS {
        let call = client.call(question.clone());
        call.run(|_| async { Ok::<_, ()>(()) }).await.unwrap();
    }
    println!("call().run():         {:?} a call", begun.elapsed() / CALLS);

    let begun = Instant::now();
    for _ in 0..CALLS {
        let permit = client.acquire(question.clone()).await.unwrap();
        permit.report(Outcome::success());
    }
    println!("acquire() + report(): {:?} a call", begun.elapsed() / CALLS);

    let layer = HoldoffLayer::new(client.clone(), move |_: &u32| question.clone()).plain();
    cost_of("HoldoffLayer:         ", layer.layer(service_fn(works))).await;
    let breaker = CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_size(100)
        .build()
        .unwrap();
    type Broken = CircuitBreakerError<std::io::Error>;
    let retries = RetryLayer::<u32, u32, Broken>::builder()
        .max_attempts(3)
        .exponential_backoff(Duration::from_millis(100))
        .build();
    let layers = ServiceBuilder::new().layer(retries).layer(breaker);
    cost_of("tower-resilience:     ", layers.service(service_fn(works))).await;

    assert_eq!(client.counters().pushed_grants, u64::from(3 * CALLS));
    assert_eq!(service.questions().len(), 0);
}

async fn works(request: u32) -> Result<u32, std::io::Error> {
    Ok(request)
}

async fn cost_of<S: Service<u32, Response = u32>>(name: &str, mut service: S)
where
    S::Error: std::fmt::Debug,
{
    let begun = Instant::now();
    for call in 0..CALLS {
        let ready = service.ready().await.unwrap();
        assert_eq!(ready.call(call).await.unwrap(), call);
    }
    println!("{name} {:?} a call", begun.elapsed() / CALLS);
}
