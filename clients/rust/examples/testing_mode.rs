//! How code that makes guarded calls is tested: no service, no waiting, at most three
//! attempts.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use holdoff_client::{CallError, Client, Safety};

/// The code under test. In production it gets a client that knows a service.
async fn fetch(client: &Client, calls: &AtomicU32) -> Result<u32, CallError<&'static str>> {
    client
        .call("rates")
        .safety(Safety::Idempotent)
        .deadline(Duration::from_secs(30))
        .run(|_| async {
            match calls.fetch_add(1, Relaxed) {
                0 | 1 => Err("503"),
                calls => Ok(calls),
            }
        })
        .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let client = Client::testing();
    let begun = Instant::now();

    let calls = AtomicU32::new(0);
    println!("it recovers: {:?}", fetch(&client, &calls).await);
    println!("after {} calls", calls.load(Relaxed));

    let hopeless = client
        .call("rates")
        .safety(Safety::Idempotent)
        .run(|_| async { Err::<(), _>("503") })
        .await;
    if let Err(error) = hopeless {
        println!("it gives up: {error}");
    }
    println!(
        "without waiting: {}",
        begun.elapsed() < Duration::from_secs(1)
    );
}
