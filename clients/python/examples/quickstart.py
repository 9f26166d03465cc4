"""The smallest use: a call that is guarded. With a service (`holdoff serve`) or without one."""

import sys

import holdoff


def charge(attempt: holdoff.Attempt) -> str:
    """Stands for a call that fails now and then."""
    by = "this process" if attempt.is_local else "the service"
    print(f"attempt {attempt.number}, granted by {by}")
    if attempt.number == 1:
        raise ConnectionError("503 Service Unavailable")
    return "charged"


client = holdoff.Client(sys.argv[1:] or ["http://127.0.0.1:7460"], service="checkout")
print(client.call("payments", charge, idempotent=True, deadline=2.0))
client.flush(1.0)
