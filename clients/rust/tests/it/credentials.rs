//! TLS, mutual TLS and tokens, over real sockets.

use std::time::Duration;

use holdoff_client::{Builder, Client, Outcome, Tls, operator};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::server::Scripted;

/// An authority, and what it has signed.
struct Signed {
    authority: String,
    server: (String, String),
    client: (String, String),
}

fn signed() -> Signed {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let sign = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    Signed {
        authority: authority.pem(),
        server: sign("holdoff.test"),
        client: sign("checkout-1"),
    }
}

/// The endpoint of a service that wants a certificate and the token `open sesame`.
async fn encrypted(signed: &Signed) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (certificate, key) = &signed.server;
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(&signed.authority));
    Scripted::granting().serve_encrypted(listener, tls, "open sesame");
    format!("https://127.0.0.1:{port}")
}

async fn is_granted_by_the_service(builder: Builder, endpoint: &str) -> bool {
    let client: Client = builder
        .endpoints([endpoint])
        .timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    client.connect(Duration::from_secs(5)).await;
    let permit = client.acquire("payments").await.unwrap();
    let is_from_service = !permit.is_local();
    permit.report(Outcome::success());
    is_from_service
}

#[tokio::test]
async fn whoever_has_certificate_and_token_is_answered_and_nobody_else() {
    let signed = signed();
    let endpoint = encrypted(&signed).await;
    let trusting = Tls::new()
        .authorities(&signed.authority)
        .server_name("holdoff.test");
    let known = trusting
        .clone()
        .identity(&signed.client.0, &signed.client.1);

    let builder = || Client::builder().token("open sesame");
    assert!(is_granted_by_the_service(builder().tls(known.clone()), &endpoint).await);
    // No certificate; a certificate of the wrong name; authorities that did not sign it.
    assert!(!is_granted_by_the_service(builder().tls(trusting), &endpoint).await);
    let misnamed = known.clone().server_name("other.test");
    assert!(!is_granted_by_the_service(builder().tls(misnamed), &endpoint).await);
    assert!(!is_granted_by_the_service(builder(), &endpoint).await);
    // No token; another.
    let builder = || Client::builder().tls(known.clone());
    assert!(!is_granted_by_the_service(builder(), &endpoint).await);
    assert!(!is_granted_by_the_service(builder().token("open barley"), &endpoint).await);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_read_is_found_when_the_client_is_built() {
    let tls = Tls::new().identity("no certificate", "no key");
    let refused = Client::builder()
        .endpoints(["https://127.0.0.1:1"])
        .tls(tls.clone())
        .build();
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("https://127.0.0.1:1"), "{message}");
    let access = operator::Access { tls, token: None };
    let refused = operator::connect_as("https://127.0.0.1:1", None, &access).await;
    assert!(matches!(refused, Err(operator::ConnectError::Malformed(_))));
}
