"""A client in another language, end to end: stubs from proto/ and the language's own gRPC.

Usage: smoke.py HOST:PORT. Prints one line a check, and how many failed; exits 1 if any did.
"""

import queue
import sys
import time

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import status_pb2
from holdoff.v1 import coordinator_pb2 as pb
from holdoff.v1 import coordinator_pb2_grpc as coordinator
from holdoff.v1 import operator_pb2 as op
from holdoff.v1 import operator_pb2_grpc as operator

WITHIN = 10  # seconds; no answer takes so long


def seconds(span):
    return span.seconds + span.nanos / 1e9


class Client:
    def __init__(self, address):
        channel = grpc.insecure_channel(address)
        self.asks = coordinator.CoordinatorServiceStub(channel)
        self.operates = operator.OperatorServiceStub(channel)
        self.caller = pb.Caller(service="smoke", instance="python-1")

    def ask(self, dependency, attempt=1, permit=None, kind=pb.OUTCOME_KIND_FAILURE, **more):
        request = pb.AcquireRequest(
            dependency=dependency,
            caller=self.caller,
            attempt=attempt,
            safety=pb.SAFETY_IDEMPOTENT,
            **more,
        )
        if permit is not None:
            request.previous.permit = permit
            request.previous.outcome.kind = kind
        return self.asks.Acquire(request, timeout=WITHIN)

    def report(self, permit, kind):
        entry = pb.ReportEntry(result=pb.PermitResult(permit=permit, outcome=pb.Outcome(kind=kind)))
        request = pb.ReportRequest(caller=self.caller, entries=[entry])
        return self.asks.Report(request, timeout=WITHIN).results[0]

    def trip(self, dependency):
        for _ in range(5):
            permit = self.ask(dependency).grant.permit
            assert self.report(permit, pb.OUTCOME_KIND_FAILURE).applied


def a_first_attempt_is_granted_at_once(client):
    answer = client.ask("first")
    assert answer.WhichOneof("verdict") == "grant", answer
    assert answer.grant.HasField("delay") and seconds(answer.grant.delay) == 0
    assert answer.state == pb.BREAKER_STATE_CLOSED and answer.epoch >= 1
    assert client.report(answer.grant.permit, pb.OUTCOME_KIND_SUCCESS).reason == pb.REPORT_REASON_OK
    again = client.report(answer.grant.permit, pb.OUTCOME_KIND_SUCCESS)
    assert (again.applied, again.reason) == (False, pb.REPORT_REASON_DUPLICATE)


def retries_get_jittered_delays_until_the_attempts_are_used_up(client):
    delays = []
    for call in range(20):
        # Alternating with successes, so that the breaker stays out of this.
        for _ in range(4):
            client.report(client.ask("jitter").grant.permit, pb.OUTCOME_KIND_SUCCESS)
        permit = client.ask("jitter").grant.permit
        answer = client.ask("jitter", 2, permit)
        assert answer.previous_result == pb.REPORT_REASON_OK, answer
        delays.append(seconds(answer.grant.delay))
        time.sleep(delays[-1])
        client.report(answer.grant.permit, pb.OUTCOME_KIND_SUCCESS)
    assert all(0 <= delay <= 0.1 for delay in delays), delays
    assert len(set(delays)) >= 18, delays
    permit = client.ask("jitter").grant.permit
    denial = client.ask("jitter", 5, permit).denial
    assert denial.reason == pb.DENIAL_REASON_ATTEMPTS_EXHAUSTED, denial
    assert not denial.HasField("retry_after") and denial.detail


def a_breaker_opens_says_when_and_closes_after_a_probe(client):
    client.trip("flaky")
    denial = client.ask("flaky").denial
    assert denial.reason == pb.DENIAL_REASON_BREAKER_OPEN, denial
    after = seconds(denial.retry_after)
    assert 0 < after <= 0.4, after
    time.sleep(after)
    probe = client.ask("flaky").grant
    assert probe.probe, probe
    assert client.report(probe.permit, pb.OUTCOME_KIND_SUCCESS).applied
    assert client.ask("flaky").state == pb.BREAKER_STATE_CLOSED


def what_is_unsafe_or_too_late_is_denied(client):
    permit = client.ask("unsafe").grant.permit
    late = client.ask("unsafe", 2, permit, time_left=Duration(nanos=0))
    assert late.denial.reason == pb.DENIAL_REASON_DEADLINE, late
    request = pb.AcquireRequest(dependency="unsafe", attempt=2, safety=pb.SAFETY_UNSAFE)
    request.previous.permit = client.ask("unsafe").grant.permit
    request.previous.outcome.kind = pb.OUTCOME_KIND_TIMEOUT
    denial = client.asks.Acquire(request, timeout=WITHIN).denial
    assert denial.reason == pb.DENIAL_REASON_RETRY_UNSAFE, denial


def what_makes_no_sense_is_an_error_with_details(client):
    try:
        client.ask("no sense")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        assert "dependency" in error.details()
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        status = status_pb2.Status.FromString(details)
        kinds = {detail.type_url.rsplit("/", 1)[-1] for detail in status.details}
        assert {"google.rpc.ErrorInfo", "google.rpc.BadRequest"} <= kinds, kinds
    else:
        raise AssertionError("it was answered")


def a_session_answers_by_id_in_the_order_of_its_items(client):
    messages = queue.Queue()
    answers = client.asks.Session(iter(messages.get, None), timeout=WITHIN)
    hello = pb.Hello(caller=client.caller, subscribe=["session"])
    messages.put(pb.SessionRequest(id=1, hello=hello))
    good = pb.AcquireRequest(dependency="session", attempt=1)
    bad = pb.AcquireRequest(dependency="session", attempt=0)
    for number in (10, 11, 12):
        batch = pb.AcquireBatch(requests=[good, bad, good])
        messages.put(pb.SessionRequest(id=number, acquire=batch))
    answered, updates = {}, []
    for answer in answers:
        if answer.WhichOneof("message") == "update":
            updates.append(answer.update)
        else:
            answered[answer.id] = answer.acquired.items
        if len(answered) == 3 and updates:
            break
    assert set(answered) == {10, 11, 12}, answered
    for items in answered.values():
        assert [item.WhichOneof("result") for item in items] == ["response", "status", "response"]
    assert updates[0].first_attempts == pb.FIRST_ATTEMPTS_GO, updates
    messages.put(None)
    assert all(answer.WhichOneof("message") == "update" for answer in answers)


def an_operator_forces_and_releases(client):
    order = dict(dependency="forced", owner="smoke", reason="a test")
    kind = op.OVERRIDE_KIND_FORCE_OPEN
    client.operates.SetOverride(op.SetOverrideRequest(kind=kind, **order), timeout=WITHIN)
    assert client.ask("forced").denial.reason == pb.DENIAL_REASON_FORCED_OPEN
    client.operates.ClearOverride(op.ClearOverrideRequest(**order), timeout=WITHIN)
    assert client.ask("forced").HasField("grant")
    audit = client.operates.ListAudit(op.ListAuditRequest(), timeout=WITHIN).records
    assert [record.action for record in audit] == ["SetOverride", "ClearOverride"], audit


CHECKS = [
    a_first_attempt_is_granted_at_once,
    retries_get_jittered_delays_until_the_attempts_are_used_up,
    a_breaker_opens_says_when_and_closes_after_a_probe,
    what_is_unsafe_or_too_late_is_denied,
    what_makes_no_sense_is_an_error_with_details,
    a_session_answers_by_id_in_the_order_of_its_items,
    an_operator_forces_and_releases,
]


def main():
    client = Client(sys.argv[1])
    failed = 0
    for check in CHECKS:
        try:
            check(client)
        except Exception as error:  # each check is to be told apart, whatever it raises
            failed += 1
            print(f"python: {check.__name__} FAILED: {type(error).__name__}: {error}")
        else:
            print(f"python: {check.__name__} ok")
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
