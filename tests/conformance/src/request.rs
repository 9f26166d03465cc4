//! A request through the client's middleware for reqwest, which chooses dependency and safety.

use anyhow::{Context, Result, bail};
use holdoff_client::{CallError, Client, HoldoffMiddleware};
use http::{HeaderName, HeaderValue};
use reqwest_middleware::{ClientBuilder, Error};
use serde_json::{Value, json};

use crate::normal::word;

/// As `docs/conformance.md` says of the step `request`.
///
/// # Errors
/// The step says no request, or nobody refused it.
pub async fn send(client: &Client, step: &Value) -> Result<Value> {
    let text = |name: &str| step[name].as_str().with_context(|| format!("no `{name}`"));
    let plain = reqwest::Client::builder().no_proxy().build()?;
    let guarded = ClientBuilder::new(plain).with(HoldoffMiddleware::by_host(client.clone()));
    let mut request = guarded
        .build()
        .request(text("method")?.parse()?, text("url")?);
    for (name, value) in step["headers"].as_object().into_iter().flatten() {
        let value = value.as_str().context("a header is a text")?;
        request = request.header(name.parse::<HeaderName>()?, value.parse::<HeaderValue>()?);
    }
    let why = match request.send().await {
        Err(Error::Middleware(error)) => {
            let refused = error.downcast_ref::<CallError<Error>>();
            refused.context("not the client's error")?.why.clone()
        }
        Err(Error::Reqwest(error)) => bail!("it was sent: {error}"),
        Ok(response) => bail!("it was answered: {}", response.status()),
    };
    Ok(json!({
        "value": null,
        "error": null,
        "reason": word(&why.reason),
        "by": word(&why.by),
        "retry_after_ms": why.retry_after.map(|wait| wait.as_millis() as u64),
        "runs": 0,
    }))
}
