"""How connections to the service are made: addresses, TLS, a token, and gRPC's settings.

gRPC's own retries are off: this client decides when the service is asked again. A proxy of the
environment is used for other machines only, and never for this one.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

import grpc

Token = Union[str, Callable[[], str]]
Options = list[tuple[str, Union[int, str]]]

DEFAULT_PORT = 7460
KEEPALIVE_MS = 20_000
MESSAGE_BYTES_MAX = 4 * 1024 * 1024
_ADDRESS = re.compile(
    r"(?:(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://)?"
    r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?/?"
)


@dataclass(frozen=True)
class Tls:
    """Whom `https://` endpoints must be, and who this client is to them; all of it PEM.

    Without it their certificates must be such that gRPC's own list of authorities trusts.
    """

    authorities: Optional[bytes] = None
    certificate: Optional[bytes] = None
    key: Optional[bytes] = field(default=None, repr=False)
    server_name: Optional[str] = None
    """The name that the service's certificate must have; the endpoint's host unless said."""


@dataclass(frozen=True)
class Endpoint:
    """One address of the service."""

    target: str
    is_secure: bool
    is_loopback: bool
    tls: Tls
    token: Optional[Token] = field(default=None, repr=False)

    @classmethod
    def parse(
        cls, endpoint: str, tls: Tls, token: Optional[Token], setting: str = "endpoint"
    ) -> Endpoint:
        """`http://host:port`, `https://host:port` or `host:port`; `setting` is what said so."""
        address = read_address(endpoint)
        if address is None:
            raise ValueError(
                f"{setting} `{_shown(endpoint)}`: it must be http://host:port, https://host:port"
                " or host:port"
            )
        host, port, is_secure = address
        name = f"[{host}]" if ":" in host else host
        return cls(f"{name}:{port}", is_secure, _is_loopback(host), tls, token)

    def options(self) -> Options:
        options: Options = [
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            # A new channel dials at once, whatever the one before it has met.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ]
        if self.is_loopback:
            options.append(("grpc.enable_http_proxy", 0))
        if self.is_secure and self.tls.server_name:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
            options.append(("grpc.default_authority", self.tls.server_name))
        return options

    def credentials(self) -> Any:
        tls = self.tls
        return grpc.ssl_channel_credentials(tls.authorities, tls.key, tls.certificate)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """A token that changes is read anew for each stream and each request."""
        token = self.token() if callable(self.token) else self.token
        return (("authorization", f"Bearer {token}"),) if token else ()

    def connect(self) -> grpc.Channel:
        if self.is_secure:
            return grpc.secure_channel(self.target, self.credentials(), self.options())
        return grpc.insecure_channel(self.target, self.options())

    def connect_aio(self) -> Any:
        if self.is_secure:
            return grpc.aio.secure_channel(self.target, self.credentials(), self.options())
        return grpc.aio.insecure_channel(self.target, self.options())


def read_address(endpoint: object) -> Optional[tuple[str, int, bool]]:
    """Host, port, and whether it is encrypted. The port may be absent where there is a scheme: a
    lone word is a mistake more often than a host. None: it is no address.
    """
    found = _ADDRESS.fullmatch(endpoint) if isinstance(endpoint, str) else None
    if found is None:
        return None
    scheme, host, port = found["scheme"], found["host"].lower(), found["port"]
    if host.startswith("["):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return None
    if port is None and scheme is None:
        return None
    number = DEFAULT_PORT if port is None else int(port)
    return (host, number, (scheme or "").lower() == "https") if 1 <= number <= 65_535 else None


def _shown(endpoint: object) -> str:
    """Without a user or password."""
    text = str(endpoint)
    return (f"…{text[text.rindex('@') :]}" if "@" in text else text)[:80]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
