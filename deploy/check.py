"""Checks the board and the rules against a running Prometheus that scrapes the service.

    python3 deploy/check.py scrape URL                       prints what the service shows
    python3 deploy/check.py board PROMETHEUS BOARD RULES     every query and every metric

Only the standard library: what is checked is Prometheus's own answer.
"""

import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

# What Prometheus itself adds.
ITS_OWN = {"up"}
# A word that names a metric of ours, or one that every process has.
NAME = re.compile(r"\b(?:holdoff_|rpc_server_|process_|up\b)[a-z0-9_]*")
VARIABLES = {"$__rate_interval": "1m", "$job": ".*", "$instance": ".*"}
WITHIN_SECONDS = 60


def get(url, **query):
    if query:
        url += "?" + urllib.parse.urlencode(query)
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def ask(prometheus, expression):
    """The result of a query; what it refuses is an error with Prometheus's own words."""
    try:
        answer = json.loads(get(prometheus + "/api/v1/query", query=expression))
    except urllib.error.HTTPError as error:
        # 503 is no verdict on the query: it is still reading its log.
        if error.code >= 500:
            raise
        raise SystemExit(f"{expression}\n  {error.read().decode()}") from error
    return answer["data"]["result"]


def until(what, done):
    """Waits until `done` gives something: scrapes and rules come once a second."""
    last = None
    for _ in range(WITHIN_SECONDS * 5):
        try:
            last = done()
            why = ""
        except OSError as error:  # refused, reset, too slow, or not ready (503)
            last, why = None, f" ({error})"
        if last:
            return last
        time.sleep(0.2)
    raise SystemExit(f"not within {WITHIN_SECONDS} s: {what}{why}")


def queries_of(board):
    """Every query of the board, with where it stands."""
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
        for inner in panel.get("panels", []):
            raise SystemExit(f"{inner['title']}: panels in rows are not looked at")
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def check_board(prometheus, board_path, rules_path):
    with open(board_path, encoding="utf-8") as file:
        board = json.load(file)
    up = until("a scrape", lambda: ask(prometheus, 'up{job="holdoff"} == 1'))
    assert len(up) == 1, up
    known = set(json.loads(get(prometheus + "/api/v1/label/__name__/values"))["data"])
    used, expressions = set(), 0
    for title, expression in queries_of(board):
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        ask(prometheus, expression)
        expressions += 1
        used |= set(NAME.findall(strip_strings(expression)))
    groups = json.loads(get(prometheus + "/api/v1/rules"))["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    with open(rules_path, encoding="utf-8") as file:
        alerts = re.findall(r"^ +- alert: (\w+)$", file.read(), re.M)
    assert {rule["name"] for rule in rules if rule["type"] == "alerting"} == set(alerts)
    for rule in rules:
        used |= set(NAME.findall(strip_strings(rule["query"])))
    missing = sorted(name for name in used - known - ITS_OWN)
    if missing:
        raise SystemExit("no series of these in a scrape: " + ", ".join(missing))
    shown = {base(name) for name in known if NAME.fullmatch(name)}
    unused = sorted(shown - {base(name) for name in used} - ITS_OWN)
    if unused:
        raise SystemExit("on no panel and in no rule: " + ", ".join(unused))
    healthy = until(
        "all rules evaluated",
        lambda: all(
            rule["health"] == "ok"
            for group in json.loads(get(prometheus + "/api/v1/rules"))["data"]["groups"]
            for rule in group["rules"]
        ),
    )
    assert healthy
    for name in ("holdoff:decisions:rate5m", "holdoff:denied:ratio_rate5m"):
        until(name, lambda name=name: ask(prometheus, name))
    forced = ask(prometheus, 'holdoff_dependency_state{dependency="payments"}')
    assert [sample["value"][1] for sample in forced] == ["4"], forced
    firing = ask(prometheus, 'ALERTS{alertstate="firing"}')
    assert not firing, firing
    print(f"{expressions} queries, {len(rules)} rules, {len(used)} metrics: all there")


def strip_strings(expression):
    return re.sub(r'"[^"]*"', '""', expression)


def base(name):
    """A histogram is one metric, and so is a recording rule no metric of ours."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


def main(arguments):
    if arguments[:1] == ["scrape"] and len(arguments) == 2:
        sys.stdout.write(get(arguments[1]))
    elif arguments[:1] == ["board"] and len(arguments) == 4:
        check_board(*arguments[1:])
    else:
        raise SystemExit(__doc__)


main(sys.argv[1:])
