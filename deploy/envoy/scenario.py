"""What docs/envoy.md promises, with a real Envoy, a real upstream and a real holdoff.

Runs the very `envoy.yaml` beside this file: only ports, the timeout of a busy machine and the
name of the dependency (a header here) are put in its place. Python's standard library alone.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import pathlib
import random
import select
import signal
import socket
import struct
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).parent

POLICIES = """\
version: 1
namespaces:
  default:
    dependencies:
      limited: {rate: {per_second: 0.05, burst: 3}, pushback: {spread: 0s}}
      shaky:
        breaker: {detect: window, window: 10, min_calls: 5, open_for: 3s, spread: 0s, probe_successes: 1}
        ramp: {start: 1}
      shaky-too: {breaker: {detect: window, window: 10, min_calls: 5, open_for: 60s, spread: 0s}}
      shared-key: {pushback: {scope: dependency, spread: 0s}}
      retried: {budget: {ratio: 0, floor_per_second: 0}, breaker: {mode: off}}
"""


# Where docs/envoy.md says that its part for the edge belongs.
ROUTES = "                route_config:\n"
PAGE = HERE.parent.parent / "docs" / "envoy.md"


def part_for_the_edge():
    """The one of the page that drops a header, as far in as the example wants it."""
    parts = PAGE.read_text().split("```")
    (part,) = [part for part in parts if "early_header_mutation_extensions" in part]
    lines = part.removeprefix("yaml\n").splitlines()
    return "".join(f"{' ' * 16}{line}\n" for line in lines)


EDGE = part_for_the_edge()


class Upstream:
    """Answers what the path says: /503 is 503, /429/7 is 429 with Retry-After: 7."""

    def __init__(self):
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                upstream.seen += 1
                parts = self.path.strip("/").split("/")
                self.send_response(int(parts[0]))
                if len(parts) > 1:
                    self.send_header("retry-after", parts[1])
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.seen = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Faulty:
    """Stands between Envoy and holdoff; loses, cuts or garbles what it carries, as it is told."""

    KINDS = ("black hole", "reset", "garbage", "another protocol", "no message", "refusal")

    def __init__(self, port_behind):
        self.port_behind = port_behind
        self.kind = None
        self.seen = 0
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def become(self, kind):
        """`None`: it carries everything. Who is connected stays so, into the black hole alone."""
        self.kind = kind
        if kind != "black hole":
            for connection in list(self.open):
                self.cut(connection)

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            self.open.add(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def cut(self, connection):
        self.open.discard(connection)
        with contextlib.suppress(OSError):
            # Closed so, it is a RST and no orderly end.
            now = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
            connection.shutdown(socket.SHUT_RD)
            connection.close()

    def serve(self, connection):
        with contextlib.suppress(OSError, EOFError):
            if self.kind is None:
                self.carry(connection)
            elif self.kind in ("no message", "refusal"):
                self.answer(connection)
            else:
                while connection.recv(65536):
                    self.seen += 1
                    if self.kind == "reset":
                        break
                    if self.kind == "garbage":
                        connection.sendall(random.Random(7).randbytes(4096))
                    if self.kind == "another protocol":
                        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        self.cut(connection)

    def carry(self, connection):
        with socket.create_connection(("127.0.0.1", self.port_behind)) as behind:
            other = {connection: behind, behind: connection}
            while True:
                for ready in select.select(list(other), [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    if self.kind is None:
                        other[ready].sendall(data)
                    else:
                        self.seen += 1

    def answer(self, connection):
        """HTTP/2 as far as it takes to answer each call with what is no RateLimitResponse."""

        def exactly(count):
            data = b""
            while len(data) < count:
                more = connection.recv(count - len(data))
                if not more:
                    raise EOFError
                data += more
            return data

        def frame(kind, flags, stream, payload=b""):
            head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
            connection.sendall(head + stream.to_bytes(4, "big") + payload)

        def text(value):
            return bytes([len(value)]) + value

        exactly(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        frame(4, 0, 0)
        while True:
            head = exactly(9)
            exactly(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == 4 and not flags & 1:
                frame(4, 1, 0)
            # The last of a call, whether it has a body or not.
            if kind in (0, 1) and flags & 1:
                self.seen += 1
                # `:status: 200`, `content-type`, and literal fields, never indexed.
                about = b"\x88\x0f\x10" + text(b"application/grpc")
                status = b"\x00" + text(b"grpc-status")
                if self.kind == "refusal":
                    frame(1, 5, stream, about + status + text(b"8"))
                else:
                    frame(1, 4, stream, about)
                    frame(0, 0, stream, b"\x00\x00\x00\x00\x05\xff\xff\xff\xff\xff")
                    frame(1, 5, stream, status + text(b"0"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, holds, seconds=30):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if (found := holds()) is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {seconds} s")


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        self.body = response.read().decode()
        self.reason = self.headers.get("x-holdoff-reason")

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body!r}"


def get(port, path="/200", dependency=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if dependency:
        headers["x-dependency"] = dependency
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        return Answer(connection.getresponse())


class World:
    """The processes, and where they listen. Whatever happens, they are ended."""

    def __init__(self, arguments, stack):
        self.arguments, self.stack = arguments, stack
        self.into = pathlib.Path(arguments.into)
        self.policies = self.into / "policies.yaml"
        self.policies.write_text(POLICIES)
        self.upstream = Upstream()
        self.holdoff_port = free_port()
        self.holdoff = None

    def start(self, name, *command):
        log = self.stack.enter_context(open(self.into / f"{name}.log", "w"))
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        def end():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

        self.stack.callback(end)
        return process

    def start_holdoff(self):
        listen = f"127.0.0.1:{self.holdoff_port}"
        self.holdoff = self.start(
            "holdoff", self.arguments.holdoff, "serve", "--listen", listen, "--http", "off",
            "--policies", str(self.policies),
        )
        wait_for("holdoff listens", lambda: self.ask_holdoff("status").returncode == 0 or None)

    def ask_holdoff(self, *arguments):
        server = f"http://127.0.0.1:{self.holdoff_port}"
        command = [self.arguments.holdoff, *arguments, "--server", server]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def start_envoy(self, name, config, port):
        path = self.into / f"{name}.yaml"
        path.write_text(config)
        self.start(
            name, self.arguments.envoy, "-c", str(path), "--concurrency", "1", "-l", "warning",
            "--use-dynamic-base-id",
        )

        def listens():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True

        wait_for(f"{name} listens", listens)
        return port

    def example(self, name, **changes):
        """The example in the repository, with free ports and these changes."""
        port = free_port()
        changes = {
            "port_value: 10000": f"port_value: {port}",
            "port_value: 8080": f"port_value: {self.upstream.port}",
            "port_value: 7460": f"port_value: {self.holdoff_port}",
            "timeout: 0.02s": "timeout: 2s",
            "descriptor_value: payments": 'descriptor_value: "%REQ(x-dependency)%", default_value: payments',
            **changes,
        }
        text = (HERE / "envoy.yaml").read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in envoy.yaml"
            text = text.replace(old, new)
        return self.start_envoy(name, text, port)

    def sidecar(self, upstream_port):
        """An Envoy beside the caller, which retries on 5xx and counts its attempts."""
        port = free_port()
        typed = "type.googleapis.com/envoy.extensions.filters"
        route = {
            "match": {"prefix": "/"},
            "route": {"cluster": "next", "retry_policy": {"retry_on": "5xx", "num_retries": 3}},
        }
        host = {
            "name": "all", "domains": ["*"], "routes": [route],
            "include_request_attempt_count": True,
        }
        manager = {
            "@type": f"{typed}.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "sidecar",
            "route_config": {"virtual_hosts": [host]},
            "http_filters": [
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": f"{typed}.http.router.v3.Router"},
                }
            ],
        }
        chain = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
        endpoint = {"endpoint": {"address": address(upstream_port)}}
        assignment = {"cluster_name": "next", "endpoints": [{"lb_endpoints": [endpoint]}]}
        config = {
            "static_resources": {
                "listeners": [{"address": address(port), "filter_chains": [{"filters": [chain]}]}],
                "clusters": [{"name": "next", "load_assignment": assignment}],
            }
        }
        return self.start_envoy("sidecar", json.dumps(config), port)


def over_the_limit_is_429_with_headers(world, open_port):
    for left in (2, 1, 0):
        answer = get(open_port, dependency="limited")
        assert answer.status == 200, answer
        assert f";r={left};" in answer.headers["ratelimit"], answer
    seen = world.upstream.seen
    answer = get(open_port, dependency="limited")
    assert answer.status == 429, answer
    assert answer.headers["ratelimit-policy"] == '"limited";q=3;w=60', answer
    assert 1 <= int(answer.headers["retry-after"]) <= 20, answer
    assert answer.headers["x-envoy-ratelimited"] == "true", answer
    assert answer.reason == "RATE_LIMITED", answer
    assert answer.body.startswith("held off: RATE_LIMITED; try again in "), answer
    assert world.upstream.seen == seen, "the upstream was asked"


def envoy_alone_opens_and_closes_the_breaker(world, open_port, closed_port):
    for _ in range(5):
        answer = get(open_port, "/503", "shaky")
        assert (answer.status, answer.reason) == (503, None), answer

    def refused():
        # How a call ended is told just after its answer.
        answer = get(open_port, dependency="shaky")
        return answer if answer.reason else None

    answer = wait_for("the breaker opens", refused, 5)
    assert (answer.status, answer.reason) == (429, "BREAKER_OPEN"), answer
    assert 1 <= int(answer.headers["retry-after"]) <= 3, answer
    seen = world.upstream.seen
    answer = get(closed_port, dependency="shaky")
    assert (answer.status, answer.reason) == (503, "BREAKER_OPEN"), answer
    assert world.upstream.seen == seen, "the upstream was asked"

    def closed():
        passes = get(open_port, dependency="shaky").status == 200
        shown = world.ask_holdoff("status", "shaky", "--output", "json").stdout
        return True if passes and "BREAKER_STATE_CLOSED" in shown else None

    wait_for("a probe closes the breaker", closed, 15)


def a_retry_after_of_the_upstream_holds_everybody(world, open_port, closed_port):
    assert get(open_port, "/429/3", "shared-key").status == 429

    def held():
        answer = get(closed_port, dependency="shared-key")
        return answer if answer.reason else None

    answer = wait_for("the hold", held, 3)
    assert (answer.status, answer.reason) == (503, "HELD"), answer


def an_operator_is_obeyed(world, open_port):
    forced = world.ask_holdoff("open", "forced", "--reason", "test")
    assert forced.returncode == 0, forced.stderr
    answer = get(open_port, dependency="forced")
    assert (answer.status, answer.reason) == (429, "FORCED_OPEN"), answer
    assert "retry-after" not in answer.headers, answer
    assert world.ask_holdoff("release", "forced", "--reason", "test").returncode == 0
    assert get(open_port, dependency="forced").status == 200


def retries_of_an_envoy_ask_the_budget(world, sidecar_port):
    seen = world.upstream.seen
    answer = get(sidecar_port, "/500", "retried")
    assert (answer.status, answer.reason) == (429, "BUDGET_EXHAUSTED"), answer
    assert world.upstream.seen == seen + 1, "the upstream was asked again"


def no_header_of_a_stranger_lets_a_call_through(world, open_port):
    assert world.ask_holdoff("open", "shut", "--reason", "test").returncode == 0
    seen = world.upstream.seen
    for attempt in ("", "-", "abc", "0", "-1", "2", "2, 2", "1000001", "1" * 201, "x" * 9000):
        answer = get(open_port, dependency="shut", x_envoy_attempt_count=attempt)
        assert (answer.status, answer.reason) == (429, "FORCED_OPEN"), (attempt, answer)
    assert world.upstream.seen == seen, "the upstream was asked"


def an_odd_retry_after_takes_nothing_from_the_outcome(world, open_port):
    for _ in range(5):
        answer = get(open_port, "/503/" + "9" * 300, "shaky-too")
        assert (answer.status, answer.reason) == (503, None), answer

    def refused():
        answer = get(open_port, dependency="shaky-too")
        return answer if answer.reason else None

    assert wait_for("the breaker opens", refused, 5).reason == "BREAKER_OPEN"


def at_the_edge_the_count_of_a_stranger_is_dropped(edge_port):
    for _ in range(3):
        answer = get(edge_port, dependency="retried", x_envoy_attempt_count="2")
        assert (answer.status, answer.reason) == (200, None), answer


def without_holdoff_envoy_does_what_it_was_told(world, open_port, closed_port):
    world.holdoff.send_signal(signal.SIGSTOP)
    assert get(open_port, dependency="limited").status == 200
    seen = world.upstream.seen
    answer = get(closed_port, dependency="limited")
    assert (answer.status, answer.reason) == (500, None), answer
    assert world.upstream.seen == seen
    world.holdoff.kill()
    world.holdoff.wait()
    for _ in range(10):
        assert get(open_port, dependency="limited").status == 200
    answer = get(closed_port, dependency="limited")
    assert (answer.status, answer.reason) == (500, None), answer
    assert world.upstream.seen == seen + 10


def a_restarted_holdoff_decides_again(world, open_port):
    world.start_holdoff()

    def decided():
        answer = get(open_port, dependency="limited")
        return answer if answer.reason else None

    answer = wait_for("a decision", decided)
    assert (answer.status, answer.reason) == (429, "RATE_LIMITED"), answer


def a_fault_on_the_way_is_no_decision(world, faulty, open_port, closed_port):
    """Envoy waits 0.3 s here. Slack is for a busy machine: seconds, where it could be for ever."""
    for kind in Faulty.KINDS:
        faulty.become(None)
        wait_for(f"a decision before {kind}", lambda: decided_through(open_port))
        wait_for(f"a decision before {kind}", lambda: decided_through(closed_port))
        faulty.become(kind)
        before, seen = faulty.seen, world.upstream.seen
        for _ in range(5):
            began = time.monotonic()
            answer = get(open_port, dependency="limited")
            took = time.monotonic() - began
            assert (answer.status, answer.reason) == (200, None), (kind, answer)
            assert took < 2.5, (kind, took)
            answer = get(closed_port, dependency="limited")
            assert (answer.status, answer.reason) == (500, None), (kind, answer)
        assert world.upstream.seen == seen + 5, kind
        assert faulty.seen > before, f"nobody met the fault: {kind}"
    faulty.become(None)
    wait_for("a decision after all of them", lambda: decided_through(open_port))


def decided_through(port):
    """What is over its limit here, and over no other way."""
    return True if get(port, dependency="limited").reason == "RATE_LIMITED" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envoy", required=True)
    parser.add_argument("--holdoff", required=True)
    parser.add_argument("--into", required=True)
    arguments = parser.parse_args()
    checked = subprocess.run(
        [arguments.envoy, "--mode", "validate", "-c", str(HERE / "envoy.yaml")],
        capture_output=True, text=True, check=False,
    )
    assert checked.returncode == 0, checked.stderr
    with contextlib.ExitStack() as stack:
        world = World(arguments, stack)
        world.start_holdoff()
        open_port = world.example("fails-open")
        closed_port = world.example(
            "fails-closed",
            **{
                "failure_mode_deny: false": "failure_mode_deny: true",
                "{code: TooManyRequests}": "{code: ServiceUnavailable}",
            },
        )
        edge_port = world.example("edge", **{ROUTES: EDGE + ROUTES})
        sidecar_port = world.sidecar(open_port)
        faulty = Faulty(world.holdoff_port)
        on_the_way = {
            "port_value: 7460": f"port_value: {faulty.port}",
            "timeout: 0.02s": "timeout: 0.3s",
        }
        faulty_ports = (
            world.example("fails-open-faulty", **on_the_way),
            world.example(
                "fails-closed-faulty",
                **on_the_way,
                **{"failure_mode_deny: false": "failure_mode_deny: true"},
            ),
        )
        over_the_limit_is_429_with_headers(world, open_port)
        envoy_alone_opens_and_closes_the_breaker(world, open_port, closed_port)
        a_retry_after_of_the_upstream_holds_everybody(world, open_port, closed_port)
        an_operator_is_obeyed(world, open_port)
        retries_of_an_envoy_ask_the_budget(world, sidecar_port)
        no_header_of_a_stranger_lets_a_call_through(world, open_port)
        an_odd_retry_after_takes_nothing_from_the_outcome(world, open_port)
        at_the_edge_the_count_of_a_stranger_is_dropped(edge_port)
        a_fault_on_the_way_is_no_decision(world, faulty, *faulty_ports)
        without_holdoff_envoy_does_what_it_was_told(world, open_port, closed_port)
        a_restarted_holdoff_decides_again(world, open_port)


if __name__ == "__main__":
    main()
