"""Ask and report as two steps, for callers that run their attempts themselves."""

import sys

import holdoff
from holdoff import Outcome


def search(attempt: int) -> str:
    if attempt < 3:
        raise TimeoutError("no answer in time")
    return "a needle"


client = holdoff.Client(sys.argv[1:] or ["http://127.0.0.1:7460"], service="worker")
print(f"the service is {'there' if client.connect(0.5) else 'away'}")

try:
    permit = client.acquire("search", idempotent=True, deadline=3.0)
    while True:
        print(f"attempt {permit.attempt} in {permit.delay:.3f} s")
        permit.wait()
        try:
            found = search(permit.attempt)
        except TimeoutError as error:
            print(error)
            permit = permit.retry(Outcome.timeout())
        else:
            print(f"found {found}")
            permit.report(Outcome.success(latency=0.012))
            break
except holdoff.Denied as denied:
    print(f"no further attempt: {denied}")

client.flush(1.0)
print(client.counters())
