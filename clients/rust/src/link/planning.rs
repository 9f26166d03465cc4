//! Asks when to check next: one unary request on the connection that stands, which is opened
//! where there is none.
//!
//! It neither opens nor shuts the gate. Nobody waits for a plan, so one that is late costs
//! nothing; and a service that answers calls may have no plans.

use std::{error::Error as _, sync::PoisonError, time::Duration};

use tokio::time::Instant;

use super::{Link, NoAnswer};
use crate::proto::{self, coordinator_service_client::CoordinatorServiceClient};

impl Link {
    /// # Errors
    /// [`NoAnswer::Away`] where the question was never sent.
    pub(crate) async fn plan_check(
        &self,
        dependency: &str,
        last_result: Option<proto::CheckResult>,
        timeout: Duration,
    ) -> Result<proto::PlanCheckResponse, NoAnswer> {
        let shared = &self.shared;
        if shared.gate.shut_until(Instant::now()).is_some() {
            return Err(NoAnswer::Away);
        }
        let request = proto::PlanCheckRequest {
            namespace: shared.hello.namespace.clone(),
            dependency: dependency.to_owned(),
            checker: shared.hello.caller.clone(),
            last_result,
        };
        let asked = async {
            if !self.connect().await {
                return Err(NoAnswer::Away);
            }
            let channel = shared.channel.lock();
            let channel = channel.unwrap_or_else(PoisonError::into_inner).clone();
            let mut client = CoordinatorServiceClient::new(channel.ok_or(NoAnswer::Away)?);
            match client.plan_check(request).await {
                Ok(response) => Ok(response.into_inner()),
                // No answer of a service stands behind it.
                Err(status) if status.source().is_some() => Err(NoAnswer::Lost),
                Err(status) => Err(NoAnswer::Failed(status.code(), status.message().to_owned())),
            }
        };
        let answer = tokio::time::timeout(timeout, asked).await;
        answer.unwrap_or(Err(NoAnswer::Late))
    }
}
