"""Renders the chart by Helm's own engine and holds it to what Kubernetes, the Prometheus operator
and the program itself take.

    python deploy/helm/check.py HOLDOFF FOLDER      the program; where rendered files are left

Needs helm-python-sdk, kubernetes-validate and cloudcoil-models-prometheus-operator.
"""

import copy
import pathlib
import re
import subprocess
import sys

import helm_python as helm
import kubernetes_validate
import yaml
from cloudcoil.models.prometheus_operator import v1 as operator

CHART = pathlib.Path(__file__).parent / "holdoff"
# The oldest that the chart says it takes, and the newest that is known here.
KUBERNETES = ("1.30", kubernetes_validate.latest_version())
OPERATOR = {"ServiceMonitor": operator.ServiceMonitor, "PrometheusRule": operator.PrometheusRule}
ALONE = {"replicas": 1, "insecure": True}

# Values that must be refused, and words of the message that says so.
REFUSED = [
    ({"insecure": True}, ["replicas: 2", "know nothing of each other", "store.existingSecret"]),
    ({**ALONE, "autoscaling": {"enabled": True}}, ["autoscaling.maxReplicas: 6"]),
    ({}, ["replicas: 2", "tls.secretName", "insecure: true"]),
    ({"replicas": 1}, ["tls.secretName: is empty"]),
    ({**ALONE, "tls": {"secretName": "t"}}, ["insecure: true and tls.secretName"]),
    ({**ALONE, "tls": {"clientCaSecretName": "c"}}, ["certificates of clients need tls.secretName"]),
    (
        {"replicas": 1, "tls": {"secretName": "t", "clientCaSecretName": "c"}},
        ["tls.probeSecretName", "tls.clients: optional"],
    ),
    ({**ALONE, "store": {"url": "redis://me:secret@v:6379"}}, ["store.url: has a password"]),
    ({**ALONE, "store": {"url": "redis://v:6379", "existingSecret": "s"}}, ["one of them"]),
    (
        {"insecure": True, "store": {"existingSecret": "s"}, "data": {"kind": "claim", "existingClaim": "c"}},
        ["one writer"],
    ),
    ({**ALONE, "data": {"kind": "claim"}}, ["data.existingClaim"]),
    ({**ALONE, "policies": {"a.yaml": "version: 1"}, "existingPolicies": "p"}, ["existingPolicies"]),
    (
        {"insecure": True, "store": {"existingSecret": "s"}, "autoscaling": {"minReplicas": 5, "maxReplicas": 3}},
        ["minReplicas: 5"],
    ),
    # By the schema.
    ({**ALONE, "replica": 3}, ["replica"]),
    ({**ALONE, "replicas": 0}, ["replicas"]),
    ({**ALONE, "replicas": "2"}, ["replicas"]),
    ({**ALONE, "store": {"url": "postgres://v"}}, ["url"]),
    ({**ALONE, "data": {"kind": "disk"}}, ["kind"]),
    ({**ALONE, "image": {"digest": "sha256:12"}}, ["digest"]),
    ({**ALONE, "serve": {"drainSeconds": 0}}, ["drainSeconds"]),
    ({**ALONE, "serve": {"metricsDependencies": "some"}}, ["metricsDependencies"]),
    ({**ALONE, "policies": {"a.txt": "version: 1"}}, ["a.txt"]),
    ({**ALONE, "extraEnv": [{"name": "HOLDOFF_LISTEN", "value": "x"}]}, ["extraEnv"]),
    ({**ALONE, "tls": {"clients": "maybe"}}, ["clients"]),
]


def render(chart, values, release="holdoff", namespace="apps"):
    chart.validate_schema(values)
    files = chart.render(values, name=release, namespace=namespace)
    documents = []
    for path, text in sorted(files.items()):
        if not path.endswith(".txt"):
            documents += [document for document in yaml.safe_load_all(text) if document]
    return documents, next(text for path, text in files.items() if path.endswith("NOTES.txt"))


def of_kind(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def the(documents, kind):
    (found,) = of_kind(documents, kind)
    return found


def validate(documents):
    for document in documents:
        model = OPERATOR.get(document["kind"])
        if model:
            held(not unknown(model, document), f"{document['kind']}: {unknown(model, document)}")
            model.model_validate(document)
            continue
        for version in KUBERNETES:
            kubernetes_validate.validate(document, version, strict=True)


def unknown(model, document):
    """Fields that the operator does not have: it would drop them without a word."""
    read = model.model_validate(document).model_dump(by_alias=True, exclude_none=True, mode="json")
    return sorted(set(paths(document)) - set(paths(read)))


def paths(value, at=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{at}.{key}"
            yield from paths(inner, f"{at}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, f"{at}[{index}]")


def held(law, what):
    if not law:
        raise SystemExit(f"not held: {what}")


def check_pod(pod, what):
    held(pod["enableServiceLinks"] is False, f"{what}: HOLDOFF_PORT must not come from a Service")
    held(pod["automountServiceAccountToken"] is False, f"{what}: no token")
    context = pod["securityContext"]
    held(context["runAsNonRoot"] and context["runAsUser"] == 65532, f"{what}: not root")
    held(context["seccompProfile"] == {"type": "RuntimeDefault"}, f"{what}: seccomp")
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in pod["containers"]:
        context = container["securityContext"]
        held(context["readOnlyRootFilesystem"], f"{what}: a root that is read-only")
        held(context["allowPrivilegeEscalation"] is False, f"{what}: no escalation")
        held(context["capabilities"] == {"drop": ["ALL"]}, f"{what}: no capabilities")
        held("memory" in container["resources"]["limits"], f"{what}: bounded memory")
        mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
        held(mounts == volumes, f"{what}: mounts {mounts} of volumes {volumes}")
    for volume in pod.get("volumes", []):
        if "secret" in volume:
            held(volume["secret"]["defaultMode"] == 0o440, f"{what}: others read {volume}")


def check_laws(documents, known_flags):
    deployment = the(documents, "Deployment")
    template = deployment["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    check_pod(pod, "Deployment")
    for test in of_kind(documents, "Pod"):
        check_pod(test["spec"], "helm test")
    labels = template["metadata"]["labels"].items()
    ports = {port["name"] for port in container["ports"]}
    for service in of_kind(documents, "Service"):
        held(service["spec"]["selector"].items() <= labels, "a Service finds its pods")
        held({port["targetPort"] for port in service["spec"]["ports"]} <= ports, "and their ports")
    for budget in of_kind(documents, "PodDisruptionBudget"):
        held(budget["spec"]["selector"]["matchLabels"].items() <= labels, "a budget finds its pods")
    for monitor in of_kind(documents, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        found = [s for s in of_kind(documents, "Service") if wanted <= s["metadata"]["labels"].items()]
        held(len(found) == 1, "each pod is scraped once")
    drain = int(re.search(r"--drain=(\d+)s", " ".join(container["args"])).group(1))
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    held(pod["terminationGracePeriodSeconds"] >= drain + pause + 15, "time for an orderly stop")
    names = [document["metadata"]["name"] for document in documents]
    held(all(len(name) <= 63 for name in names), f"names of at most 63 letters: {names}")
    for command in [container] + [test["spec"]["containers"][0] for test in of_kind(documents, "Pod")]:
        check_flags(command["args"], known_flags)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe].get("exec", {}).get("command")
        if asked:
            check_flags(asked[1:], known_flags)


def check_flags(args, known_flags):
    command = args[0]
    for arg in args[1:]:
        if arg.startswith("--"):
            flag = arg.split("=")[0]
            held(flag in known_flags(command), f"holdoff {command} has no {flag}")


def check_values(chart, name, values, known_flags, folder, program):
    report = helm.lint(str(CHART), values, strict=True)
    errors = [it for it in report["messages"] if it["severity"] > 1] + report["errors"]
    held(not errors, f"{name}: lint: {errors}")
    for release in ("holdoff", "prod", "a-release-with-a-name-as-long-as-helm-lets-it-be-53"):
        documents, notes = render(chart, values, release)
        validate(documents)
        check_laws(documents, known_flags)
        held("holdoff" in notes, "notes")
    documents, _ = render(chart, values)
    out = folder / f"{name}.yaml"
    out.write_text(yaml.safe_dump_all(documents))
    for config in of_kind(documents, "ConfigMap"):
        if config["metadata"]["name"].endswith("-policies"):
            policies = folder / f"{name}-policies"
            policies.mkdir()
            for file, text in config["data"].items():
                (policies / file).write_text(text)
            checked = subprocess.run([program, "policy", "check", "--policies", policies])
            held(checked.returncode == 0, f"{name}: policies")
    for rule in of_kind(documents, "PrometheusRule"):
        (folder / f"{name}-rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
        held(rule["spec"] == yaml.safe_load((CHART / "../../prometheus/alerts.yaml").read_text()),
             "the rules are those of deploy/prometheus")
    return documents


def check_meaning(rendered):
    """What each set of values is an example of."""
    single, fleet, mutual = (rendered[name] for name in ("single", "fleet", "mutual"))
    probe = lambda documents: (
        the(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["readinessProbe"])
    held(probe(single)["grpc"] == {"port": 7460}, "without TLS, gRPC's own probe")
    held(probe(fleet)["httpGet"]["scheme"] == "HTTPS", "with TLS, HTTPS")
    held("--cert=/etc/holdoff/probe/tls.crt" in probe(mutual)["exec"]["command"], "a certificate")
    strategy = lambda documents: the(documents, "Deployment")["spec"]["strategy"]["type"]
    held(strategy(single) == "Recreate", "never two that know nothing of each other")
    held(strategy(fleet) == strategy(mutual) == "RollingUpdate", "over a store, one by one")
    held(not of_kind(single, "PodDisruptionBudget"), "one replica may be moved")
    held("replicas" not in the(fleet, "Deployment")["spec"], "the autoscaler's to say")
    for kind in ("PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy", "ServiceMonitor"):
        the(fleet, kind)
    held(the(mutual, "Deployment")["spec"]["replicas"] == 2, "two")
    held(not of_kind(mutual, "NetworkPolicy"), "switched off")
    secrets = yaml.safe_dump_all(fleet)
    held("secretKeyRef" in secrets, "the store's URL comes from a Secret")


def check_refused(chart):
    for values, words in REFUSED:
        try:
            render(chart, values)
        except helm.HelmError as refusal:
            for word in words:
                held(word in str(refusal), f"{values}: {word!r} is not in: {refusal}")
        else:
            raise SystemExit(f"not refused: {values}")
    # A schema's sentence would not say what to do; ours says all that is wrong at once.
    try:
        render(chart, {})
    except helm.HelmError as refusal:
        held(str(refusal).count("  - ") == 2, f"all at once: {refusal}")


def check_tools(documents):
    """That the tools find what is wrong: what passes them has been looked at."""
    def broken(kind, change):
        copied = copy.deepcopy(the(documents, kind))
        change(copied)
        try:
            validate([copied])
        except (kubernetes_validate.ValidationError, ValueError, SystemExit):
            return
        raise SystemExit(f"a broken {kind} was taken")

    container = lambda it: it["spec"]["template"]["spec"]["containers"][0]
    broken("Deployment", lambda it: container(it)["readinessProbe"].update(grpc={"port": "grpc"}))
    broken("Deployment", lambda it: container(it).update(lifecycle={"preStop": {"wait": 5}}))
    broken("Deployment", lambda it: it["spec"].update(replica=2))
    broken("NetworkPolicy", lambda it: it["spec"].update(ingress={"from": []}))
    broken("ServiceMonitor", lambda it: it["spec"]["endpoints"][0].update(intervall="15s"))
    broken("PrometheusRule", lambda it: it["spec"]["groups"][0].pop("name"))


def main(program, folder):
    folder = pathlib.Path(folder)
    chart = helm.Chart.load(str(CHART))

    helps = {}
    def known_flags(command):
        if command not in helps:
            text = subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True)
            helps[command] = set(re.findall(r"--[a-z-]+", text.stdout))
        return helps[command]

    rendered = {}
    for path in sorted((CHART / "ci").glob("*-values.yaml")):
        name = path.name.removesuffix("-values.yaml")
        values = yaml.safe_load(path.read_text())
        rendered[name] = check_values(chart, name, values, known_flags, folder, program)
    check_meaning(rendered)
    check_refused(chart)
    check_tools(rendered["fleet"])
    count = sum(len(documents) for documents in rendered.values())
    print(f"{count} objects of {len(rendered)} sets of values, for Kubernetes {' and '.join(KUBERNETES)}; "
          f"{len(REFUSED)} refused as they must be")


main(*sys.argv[1:])
