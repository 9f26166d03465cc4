"""Lays out the files that compose.yaml mounts, for each service, where its container will find
them, and holds the file to what holdoff needs.

    python3 deploy/compose/check.py CONFIG HOLDOFF FOLDER

CONFIG is what `docker compose config --format json` says.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys


def held(law, what):
    if not law:
        raise SystemExit(f"not held: {what}")


def lay_out(service, folder):
    for volume in service.get("volumes", []):
        if volume["type"] != "bind":
            continue
        source = pathlib.Path(volume["source"])
        held(source.exists(), f"{source} is there")
        held(volume.get("read_only"), f"{source} is only read")
        target = folder / volume["target"].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def check_confined(name, service):
    held(service["read_only"], f"{name}: a root that is read-only")
    held(service["cap_drop"] == ["ALL"], f"{name}: no capabilities")
    held(service["security_opt"] == ["no-new-privileges:true"], f"{name}: none to be had")
    held(int(service["mem_limit"]) > 0 and service["pids_limit"] > 0, f"{name}: bounded")
    held(not service["image"].endswith(":latest") and ":" in service["image"], f"{name}: a version")
    for port in service.get("ports", []):
        held(port["host_ip"] == "127.0.0.1", f"{name}: published on this machine alone")


def check_hosts(services):
    """What one is told of another is there, under the port that it has."""
    ports = {"valkey": {"6379"}, "collector": {"4317", "8888"}, "prometheus": {"9090"}, "holdoff": {"7460", "7461"}}
    named = set()
    texts = [json.dumps(services)]
    texts += [path.read_text() for path in pathlib.Path(__file__).parent.rglob("*.yaml")]
    for text in texts:
        named |= set(re.findall(r"(?:://|\")(valkey|collector|prometheus|holdoff):(\d+)", text))
    held({host for host, _ in named} >= {"valkey", "collector", "prometheus", "holdoff"}, f"all are found: {named}")
    for host, port in named:
        held(host in services and port in ports[host], f"{host}:{port}")


def main(config, program, folder):
    folder = pathlib.Path(folder)
    services = json.loads(pathlib.Path(config).read_text())["services"]
    held(set(services) == {"holdoff", "valkey", "prometheus", "grafana", "collector"}, "five services")
    for name, service in services.items():
        lay_out(service, folder / name)
        check_confined(name, service)
    check_hosts(services)
    holdoff = services["holdoff"]
    known = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    for name in holdoff["environment"]:
        held(not name.startswith("HOLDOFF_") or f"env: {name}]" in known, f"holdoff serve knows {name}")
    policies = folder / "holdoff" / holdoff["environment"]["HOLDOFF_POLICIES"].lstrip("/")
    held(any(policies.iterdir()), "policies where they are looked for")
    build = pathlib.Path(holdoff["build"]["context"])
    held((build / holdoff["build"]["dockerfile"]).is_file(), "the Containerfile")
    provider = (folder / "grafana/etc/grafana/provisioning/dashboards/holdoff.yaml").read_text()
    path = re.search(r"path: ([^}\s]+)", provider).group(1)
    json.loads((folder / "grafana" / path.lstrip("/") / "holdoff.json").read_text())
    print(f"compose: {len(services)} services, their files where they look for them")


main(*sys.argv[1:])
