"""A client of another language over TLS, with a token: the language's own gRPC, no code of ours.

Usage: secure.py HOST:PORT CA_FILE TOKEN_FILE. Prints one line a check; exits 1 if any fails.
"""

import sys

import grpc
from google.rpc import status_pb2
from holdoff.v1 import coordinator_pb2 as pb
from holdoff.v1 import coordinator_pb2_grpc as coordinator
from holdoff.v1 import operator_pb2 as op
from holdoff.v1 import operator_pb2_grpc as operator

WITHIN = 10  # seconds; no answer takes so long


def channel(address, authorities, token):
    tls = grpc.ssl_channel_credentials(root_certificates=authorities)
    if token is None:
        return grpc.secure_channel(address, tls)
    bearer = grpc.access_token_call_credentials(token)
    return grpc.secure_channel(address, grpc.composite_channel_credentials(tls, bearer))


def refusal(call, request):
    """The code and the reason of a call that must not succeed."""
    try:
        call(request, timeout=WITHIN)
    except grpc.RpcError as error:
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        text = str(status_pb2.Status.FromString(details)) if details else ""
        return error.code(), text
    raise AssertionError("it was answered")


def main():
    address, ca_file, token_file = sys.argv[1:]
    with open(ca_file, "rb") as file:
        authorities = file.read()
    with open(token_file, encoding="ascii") as file:
        token = file.read().strip()
    question = pb.AcquireRequest(dependency="d", attempt=1)

    known = channel(address, authorities, token)
    answer = coordinator.CoordinatorServiceStub(known).Acquire(question, timeout=WITHIN)
    assert answer.WhichOneof("verdict") == "grant", answer
    print("a client with a token is answered over TLS")

    look = operator.OperatorServiceStub(known).ListDependencies
    code, text = refusal(look, op.ListDependenciesRequest())
    assert code == grpc.StatusCode.PERMISSION_DENIED and "ROLE_MISSING" in text, (code, text)
    print("what is not a client's is refused to it")

    for wrong, reason in [(None, "CREDENTIAL_MISSING"), ("hot_" + "0" * 64, "CREDENTIAL_REFUSED")]:
        other = coordinator.CoordinatorServiceStub(channel(address, authorities, wrong))
        code, text = refusal(other.Acquire, question)
        assert code == grpc.StatusCode.UNAUTHENTICATED and reason in text, (code, text)
    print("without a token, or with another, nobody is answered")

    with open(ca_file + ".stranger", "rb") as file:
        stranger = channel(address, file.read(), token)
    code, _ = refusal(coordinator.CoordinatorServiceStub(stranger).Acquire, question)
    assert code == grpc.StatusCode.UNAVAILABLE, code
    print("a service of another authority is not spoken to")


if __name__ == "__main__":
    main()
