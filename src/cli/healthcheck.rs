//! `holdoff healthcheck`: whether a service says of itself that it serves, by gRPC's own health
//! protocol. For places that can only run a program: an image without a shell, a probe where the
//! platform's own cannot show a certificate.

use std::time::Duration;

use clap::Args;
use tokio::time::timeout;
use tonic::{Code, Request};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    Context,
    connection::connect,
    escape::escape,
    exit::{Exit, Failure},
    output::{self, Format, Tone},
    span,
};

const EXAMPLES: &str = "\
Examples:
  holdoff healthcheck
  holdoff healthcheck holdoff.v1.CoordinatorService --within 1s
  holdoff healthcheck --server http://10.0.0.7:7460

Exit codes: 0 it serves, 1 it does not (it is stopping, or has no such service), 2 wrong use, \
3 service unreachable.";

/// Asks whether the service serves, as a load balancer would.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HealthcheckArgs {
    /// One gRPC service by its full name; without it, the process as a whole
    #[arg(value_name = "SERVICE", default_value = "", hide_default_value = true)]
    of: String,
    /// How long connecting and the answer may take together
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = span::parse)]
    within: Duration,
}

/// # Errors
/// [`Failure::Unreachable`] where nobody answers in time, [`Failure::No`] for a service that it
/// does not have.
pub async fn run(context: &Context, args: HealthcheckArgs) -> Result<Exit, Failure> {
    let asked = ask(context, &args.of);
    let status = timeout(args.within, asked)
        .await
        .unwrap_or_else(|_| Err(late(context, args.within)))?;
    output::print(&render(context, status));
    match status {
        ServingStatus::Serving => Ok(Exit::Done),
        ServingStatus::NotServing | ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
            Ok(Exit::No)
        }
    }
}

async fn ask(context: &Context, of: &str) -> Result<ServingStatus, Failure> {
    let mut health = HealthClient::new(connect(&context.server).await?);
    let request = HealthCheckRequest {
        service: of.to_owned(),
    };
    match health.check(Request::new(request)).await {
        // A number that the protocol does not have says nothing.
        Ok(answer) => {
            let status = answer.into_inner().status;
            Ok(ServingStatus::try_from(status).unwrap_or(ServingStatus::Unknown))
        }
        Err(status) if status.code() == Code::NotFound => Err(Failure::No(format!(
            "{}: it has no service {:?}",
            context.server,
            escape(of)
        ))),
        Err(status) => Err(Failure::from_status(&context.server.to_string(), &status)),
    }
}

fn late(context: &Context, within: Duration) -> Failure {
    Failure::Unreachable {
        server: context.server.to_string(),
        cause: format!(
            "no answer within {} (--within)",
            humantime::format_duration(within)
        ),
    }
}

fn render(context: &Context, status: ServingStatus) -> String {
    let (tone, word) = match status {
        ServingStatus::Serving => (Tone::Good, "serving"),
        ServingStatus::NotServing => (Tone::Bad, "not serving"),
        ServingStatus::Unknown | ServingStatus::ServiceUnknown => (Tone::Watch, "unknown"),
    };
    match context.format {
        Format::Table => context.ink.paint(tone, word) + "\n",
        Format::Json => output::pretty(&serde_json::json!({ "status": status.as_str_name() })),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::transport::Server;
    use tonic_health::ServingStatus as Told;

    use super::*;

    /// A service whose health is this.
    async fn with(told: Told) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_service_status("", told).await;
        let serving = Server::builder()
            .add_service(health)
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        format!("http://{address}")
    }

    async fn code(server: &str, of: &str) -> u8 {
        let args = HealthcheckArgs {
            of: of.to_owned(),
            within: Duration::from_secs(20),
        };
        match run(&Context::for_test(server), args).await {
            Ok(exit) => exit.code(),
            Err(failure) => failure.code(),
        }
    }

    #[tokio::test]
    async fn only_a_service_that_serves_is_healthy() {
        let serving = with(Told::Serving).await;
        assert_eq!(code(&serving, "").await, 0);
        assert_eq!(code(&serving, "no.such.Service").await, 1);
        assert_eq!(code(&with(Told::NotServing).await, "").await, 1);
        assert_eq!(code(&with(Told::Unknown).await, "").await, 1);
    }

    #[tokio::test]
    async fn a_service_that_takes_connections_and_never_answers_is_unreachable() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", silent.local_addr().unwrap());
        let args = HealthcheckArgs {
            of: String::new(),
            within: Duration::from_millis(50),
        };
        let failure = run(&Context::for_test(&server), args).await.unwrap_err();
        assert_eq!(failure.code(), 3, "{failure}");
        assert!(failure.to_string().contains("within 50ms"), "{failure}");
    }

    #[test]
    fn programs_read_the_protocols_own_words() {
        let mut context = Context::for_test("http://h:1");
        let shown = render(&context, ServingStatus::NotServing);
        assert_eq!(shown, "not serving\n");
        context.format = Format::Json;
        let shown = render(&context, ServingStatus::NotServing);
        assert_eq!(shown, "{\n  \"status\": \"NOT_SERVING\"\n}\n");
    }
}
