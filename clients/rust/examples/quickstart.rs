//! The smallest use: a call that is guarded. Runs with a service (`holdoff serve`) and
//! without one.

use std::time::Duration;

use holdoff_client::{Client, Safety};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder().service("checkout").build()?;

    let answer = client
        .call("payments")
        .safety(Safety::Idempotent)
        .deadline(Duration::from_secs(2))
        .run(|attempt| async move {
            let by = if attempt.is_local {
                "this process"
            } else {
                "the service"
            };
            println!("attempt {}, granted by {by}", attempt.number);
            charge(attempt.number).await
        })
        .await?;
    println!("{answer}");

    client.flush(Duration::from_secs(1)).await;
    Ok(())
}

/// Stands for a call that fails now and then.
async fn charge(attempt: u32) -> Result<&'static str, std::io::Error> {
    match attempt {
        1 => Err(std::io::Error::other("503 Service Unavailable")),
        _ => Ok("charged"),
    }
}
