"""TLS, mutual TLS and tokens, over real sockets."""

from __future__ import annotations

import time
from typing import Any

import grpc
import pytest
import trustme
from conftest import Both
from scripted import Scripted, serving

import holdoff


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def is_granted_by_the_service(both: Both, endpoint: str, **settings: Any) -> bool:
    client = both.client(endpoint, timeout=10.0, **settings)
    both.do(client.connect, 10.0)
    return not both.call(client, "payments", lambda attempt: attempt.is_local)


def credentials(authority: trustme.CA) -> Any:
    own = authority.issue_cert("holdoff.test")
    pair = (own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes())
    return grpc.ssl_server_credentials([pair], authority.cert_pem.bytes(), True)


def test_whoever_has_certificate_and_token_is_answered_and_nobody_else(
    both: Both, authority: trustme.CA
) -> None:
    mine = authority.issue_cert("client.test")
    trusting = holdoff.Tls(authorities=authority.cert_pem.bytes(), server_name="holdoff.test")
    known = holdoff.Tls(
        authorities=authority.cert_pem.bytes(),
        certificate=mine.cert_chain_pems[0].bytes(),
        key=mine.private_key_pem.bytes(),
        server_name="holdoff.test",
    )
    misnamed = holdoff.Tls(known.authorities, known.certificate, known.key, "another.test")
    scripted = Scripted(token="open sesame")
    with serving(scripted, credentials(authority)) as endpoint:
        assert is_granted_by_the_service(both, endpoint, tls=known, token="open sesame")
        assert is_granted_by_the_service(both, endpoint, tls=known, token=lambda: "open sesame")
        assert not is_granted_by_the_service(both, endpoint, tls=trusting, token="open sesame")
        assert not is_granted_by_the_service(both, endpoint, tls=misnamed, token="open sesame")
        assert not is_granted_by_the_service(both, endpoint, token="open sesame")
        assert not is_granted_by_the_service(both, endpoint, tls=known)
        assert not is_granted_by_the_service(both, endpoint, tls=known, token="open barley")


def test_nothing_that_is_shown_holds_a_key_or_a_token() -> None:
    tls = holdoff.Tls(key=b"SECRET KEY")
    client = holdoff.Client(["https://holdoff.test"], tls=tls, token="SECRET TOKEN")
    shown = f"{tls!r} {client._core.configuration!r}"
    assert "holdoff.test" in shown
    assert "SECRET" not in shown


@pytest.mark.parametrize("has_sessions", [True, False])
def test_a_token_that_cannot_be_had_costs_no_call_anything(
    both: Both,
    has_sessions: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It is looked for at once again.
    monkeypatch.setattr("holdoff._course.SPREAD_NS", 1_000_000)
    said: list[str] = []

    def token() -> str:
        return said[0]

    scripted = Scripted(token="open sesame")
    scripted.has_sessions = has_sessions
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=10.0, token=token)
        begun = time.monotonic()
        for _ in range(5):
            assert both.call(client, "payments", lambda attempt: attempt.is_local)
        assert time.monotonic() - begun < 5.0, "no timeout was waited for"
        said.append("open sesame")
        by = time.monotonic() + 10.0
        while not both.do(client.connect, 1.0):
            assert time.monotonic() < by
            time.sleep(0.01)
        assert not both.call(client, "payments", lambda attempt: attempt.is_local)
        if not has_sessions:  # Each request asks for it.
            said.clear()
            begun = time.monotonic()
            assert both.call(client, "payments", lambda attempt: attempt.is_local)
            assert time.monotonic() - begun < 5.0, "no timeout was waited for"
    shown = [record for record in caplog.records if record.exc_info]
    assert len(shown) == 1, "once a minute"


def test_whom_the_service_refuses_is_not_kept_waiting_for_the_next_connection(both: Both) -> None:
    with serving(Scripted(token="open sesame")) as endpoint:
        begun = time.monotonic()
        for _ in range(5):
            client = both.client(endpoint, timeout=10.0, token="open barley")
            both.do(client.connect, 10.0)
            assert both.call(client, "payments", lambda attempt: attempt.is_local)
    assert time.monotonic() - begun < 10.0
