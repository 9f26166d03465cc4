use std::sync::atomic::Ordering;

use holdoff_decision::Time;

use super::*;

const NOW: Time = Time(1_800_000_000_000_000_000);

fn token(n: u8) -> Token {
    Token::new([n; 32])
}

/// Each token's number, its name, its expiry in seconds from now.
fn keyring(tokens: &[(u8, &str, Option<i64>)]) -> Keyring {
    let mut text = "version: 1\ntokens:\n".to_owned();
    for (n, name, expires) in tokens {
        let expires = expires.map_or_else(String::new, |seconds| {
            let at = jiff::Timestamp::from_second(1_800_000_000 + seconds).unwrap();
            format!(", expires: \"{at}\"")
        });
        text.push_str(&format!(
            "  {name}: {{grants: {{default: client}}, secrets: [{{sha256: {}{expires}}}]}}\n",
            token(*n).hash()
        ));
    }
    text.push_str("certificates: {\"dns:host\": {default: viewer}}\n");
    Keyring::parse(&text).unwrap()
}

fn sent(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(AUTHORIZATION, value.parse().unwrap());
    }
    headers
}

fn bearer_of(n: u8) -> HeaderMap {
    sent(&[&format!("Bearer {}", token(n).reveal())])
}

fn access(keyring: Keyring) -> (Access, Arc<std::sync::atomic::AtomicU64>) {
    let (clock, handle) = Clock::manual(NOW);
    (Access::held_by(keyring, clock), handle)
}

fn with_certificate(until: u64) -> Peer {
    let peer = Peer::new(None);
    peer.certify(Certified {
        name: "dns:host".into(),
        until: std::time::UNIX_EPOCH + Duration::from_secs(until),
    });
    peer
}

#[test]
fn a_token_that_is_known_and_has_not_expired_is_a_principal() {
    let (access, clock) = access(keyring(&[(1, "one", None), (2, "two", Some(60))]));
    let name = |n| {
        let found = access.authenticate(None, &bearer_of(n));
        found.map(|principal| principal.name().unwrap().to_owned())
    };
    assert_eq!(name(1).unwrap(), "token:one");
    assert_eq!(name(2).unwrap(), "token:two");
    assert_eq!(name(3), Err(Unauthenticated::Refused));
    clock.fetch_add(60_000_000_000, Ordering::Relaxed);
    assert_eq!(name(2), Err(Unauthenticated::Refused));
    assert_eq!(name(1).unwrap(), "token:one");
}

#[test]
fn a_header_that_is_no_bearer_token_is_refused_and_none_is_missing() {
    let (access, _) = access(keyring(&[(1, "one", None)]));
    let good = token(1).reveal();
    let found = |headers| access.authenticate(None, &headers).map(|_| ());
    assert_eq!(found(sent(&[])), Err(Unauthenticated::Missing));
    let cases = [
        vec![good.clone()],
        vec![format!("Basic {good}")],
        vec![format!("Bearer {good}x")],
        vec!["Bearer".to_owned()],
        // Which of two would count?
        vec![format!("Bearer {good}"), format!("Bearer {good}")],
    ];
    for case in cases {
        let values: Vec<&str> = case.iter().map(String::as_str).collect();
        assert_eq!(
            found(sent(&values)),
            Err(Unauthenticated::Refused),
            "{case:?}"
        );
    }
    assert_eq!(found(sent(&[&format!("bearer {good}")])), Ok(()));
}

#[test]
fn a_token_decides_where_a_certificate_comes_along() {
    let (access, _) = access(keyring(&[(1, "one", None)]));
    let peer = with_certificate(1_900_000_000);
    let name = |headers| {
        let found = access.authenticate(Some(&peer), &headers);
        found.map(|principal| principal.name().unwrap().to_owned())
    };
    assert_eq!(name(sent(&[])).unwrap(), "dns:host");
    assert_eq!(name(bearer_of(1)).unwrap(), "token:one");
    assert_eq!(name(bearer_of(2)), Err(Unauthenticated::Refused));
    let expired = with_certificate(1_700_000_000);
    let refused = access.authenticate(Some(&expired), &sent(&[]));
    assert_eq!(refused, Err(Unauthenticated::Refused));
}

#[test]
fn without_a_file_everybody_may_do_everything_and_a_certificate_is_named() {
    let (clock, _) = Clock::manual(NOW);
    let access = Access::open(clock);
    let nobody = access.authenticate(None, &bearer_of(1)).unwrap();
    assert_eq!(
        (nobody.name(), nobody.signature("ada")),
        (None, "ada".into())
    );
    let named = access.authenticate(Some(&with_certificate(1_900_000_000)), &sent(&[]));
    let named = named.unwrap();
    assert_eq!(named.signature("ada"), "dns:host (ada)");
    for principal in [nobody, named] {
        for needs in Role::ALL.map(Needs::Everywhere) {
            assert!(access.authorize(&principal, needs, "").is_ok());
        }
    }
}

#[test]
fn ten_refused_tokens_a_second_are_looked_at_and_who_was_proven_is_not_shut_out() {
    let (access, clock) = access(keyring(&[(1, "one", None)]));
    let address = Some("192.0.2.1:1".parse().unwrap());
    let (proven, stranger) = (Peer::new(address), Peer::new(address));
    assert!(access.authenticate(Some(&proven), &bearer_of(1)).is_ok());
    let refused: Vec<_> = (0..20)
        .map(|_| {
            access
                .authenticate(Some(&stranger), &bearer_of(2))
                .unwrap_err()
        })
        .collect();
    assert_eq!(refused[..10], [Unauthenticated::Refused; 10]);
    assert_eq!(refused[10..], [Unauthenticated::TooMany; 10]);
    let right = access.authenticate(Some(&stranger), &bearer_of(1));
    assert_eq!(right, Err(Unauthenticated::TooMany), "not even looked at");
    assert!(access.authenticate(Some(&proven), &bearer_of(1)).is_ok());
    clock.fetch_add(1_000_000_000, Ordering::Relaxed);
    assert!(access.authenticate(Some(&stranger), &bearer_of(1)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_principal_lapses_when_its_token_expires_is_revoked_or_may_do_something_else() {
    let (access, clock) = access(keyring(&[(1, "one", None), (2, "two", Some(60))]));
    let principal = |n| access.authenticate(None, &bearer_of(n)).unwrap();
    let (one, two) = (principal(1), principal(2));
    access.exchange(keyring(&[
        (1, "one", None),
        (2, "two", Some(60)),
        (3, "three", None),
    ]));
    assert!(
        tokio::time::timeout(Duration::from_secs(30), access.lapsed(&one))
            .await
            .is_err()
    );
    clock.fetch_add(60_000_000_000, Ordering::Relaxed);
    assert_eq!(access.lapsed(&two).await, Lapse::Ended);
    let changed = async {
        tokio::task::yield_now().await;
        access.exchange(Keyring::parse(&format!(
            "version: 1\ntokens: {{one: {{grants: {{default: viewer}}, secrets: [{{sha256: {}}}]}}}}",
            token(1).hash()
        )).unwrap());
    };
    assert_eq!(tokio::join!(access.lapsed(&one), changed).0, Lapse::Changed);
    access.exchange(Keyring::default());
    assert_eq!(access.lapsed(&one).await, Lapse::Ended);
}
