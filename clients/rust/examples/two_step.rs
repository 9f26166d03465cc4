//! Ask and report as two steps, for callers that run their attempts themselves.

use std::time::Duration;

use holdoff_client::{Client, Outcome, Question, Safety};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder().service("worker").build()?;
    let is_there = client.connect(Duration::from_millis(200)).await;
    println!("the service is {}", if is_there { "there" } else { "away" });

    let question = Question::new("search")
        .safety(Safety::Idempotent)
        .deadline(Duration::from_secs(3));
    let mut permit = client.acquire(question).await?;
    loop {
        println!("attempt {} in {:?}", permit.attempt(), permit.delay());
        permit = permit.wait().await?;
        match search(permit.attempt()) {
            Ok(found) => {
                println!("found {found}");
                permit.report(Outcome::success().latency(Duration::from_millis(12)));
                break;
            }
            Err(why) => {
                println!("{why}");
                permit = match permit.retry(Outcome::timeout()).await {
                    Ok(next) => next,
                    Err(denied) => {
                        println!("no further attempt: {denied}");
                        break;
                    }
                };
            }
        }
    }

    client.flush(Duration::from_secs(1)).await;
    println!("{:?}", client.counters());
    Ok(())
}

fn search(attempt: u32) -> Result<&'static str, &'static str> {
    match attempt {
        1 | 2 => Err("no answer in time"),
        _ => Ok("a needle"),
    }
}
