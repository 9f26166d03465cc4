//! Everything a guarded call can do: no hop while all is well, HTTP statuses and `Retry-After`, a deadline, waiting
//! when the answer is no, a fallback, and the error of a call that was given up.

use std::{convert::Infallible, time::Duration};

use holdoff_client::{Client, HoldoffLayer, OnDenied, Question, Safety, classify};
use http::{Request, Response};
use tower::{Layer, ServiceExt, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder()
        .endpoints(["http://127.0.0.1:7460"])
        .service("checkout")
        .timeout(Duration::from_millis(50))
        .follow(["catalogue"])
        .build()?;

    println!("-- while the dependency is well, calls ask nothing");
    client.connect(Duration::from_millis(200)).await;
    for _ in 0..1_000 {
        let call = client.call("catalogue");
        call.run(|_| async {
            tokio::task::yield_now().await;
            Ok::<_, std::io::Error>(())
        })
        .await?;
    }
    let counters = client.counters();
    println!(
        "1000 calls: {} without a hop, {} asked, {} decided here",
        counters.pushed_grants, counters.answered, counters.local_grants
    );

    println!("-- a response with Retry-After is waited for");
    let response = client
        .call("inventory")
        .safety(Safety::Idempotent)
        .deadline(Duration::from_secs(5))
        .on_denied(OnDenied::Wait)
        .classify(classify::Http)
        .run(|attempt| async move {
            println!("attempt {}", attempt.number);
            Ok::<_, std::io::Error>(throttled_once(attempt.number))
        })
        .await?;
    println!("status {}", response.status());

    println!("-- an unsafe call that may have been executed is not repeated");
    let result = client
        .call("payments")
        .run(|_| async { Err::<(), _>(std::io::Error::other("connection reset")) })
        .await;
    if let Err(error) = result {
        println!("{error}");
        println!(
            "the last real error: {:?}",
            error.last.map(|e| e.to_string())
        );
        println!("why there was no retry: {:?}", error.why.reason);
    }

    println!("-- a fallback where the call is given up");
    let price = client
        .call("prices")
        .run_or(
            |_| async { Err::<u32, _>(std::io::Error::other("no route")) },
            |_| async { Ok(42) },
        )
        .await?;
    println!("a price from the cache: {price}");

    println!("-- the same as a tower layer");
    let layer = HoldoffLayer::new(client.clone(), |request: &Request<String>| {
        Question::new(request.uri().host().unwrap_or("unknown")).safety(Safety::Idempotent)
    });
    let service = layer.layer(service_fn(|request: Request<String>| async move {
        println!("{} {}", request.method(), request.uri());
        Ok::<_, Infallible>(Response::new("hello"))
    }));
    let request = Request::get("http://catalogue/items").body(String::new())?;
    println!("{}", service.oneshot(request).await?.body());

    client.flush(Duration::from_secs(1)).await;
    Ok(())
}

fn throttled_once(attempt: u32) -> Response<()> {
    let mut response = Response::new(());
    if attempt == 1 {
        *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
        let second = http::HeaderValue::from_static("1");
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, second);
    }
    response
}
