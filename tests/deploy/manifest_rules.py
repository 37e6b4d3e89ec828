"""What must be true of rendered manifests of ours, beyond their schema: every name that is said is there, and a pod has no rights.

problems(documents) -> a line for each thing that is not so.
"""

import json
import os
import re

import kustomize

PROXY_HARD_STOP = re.compile(r"hard-stop-after (\d+)s")
DEFAULT_GRACE = 30  # Kubernetes', in seconds
BEHIND_DRAIN = 6  # until the ports are closed, where clients do not read: server/server_stop.cc


def matches(selector, labels):
    return bool(selector) and all(labels.get(name) == value for name, value in selector.items())


def kinds(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def pods(documents):
    """(whose, labels, pod spec)"""
    for document in kinds(documents, "Deployment"):
        template = document["spec"]["template"]
        yield "Deployment " + document["metadata"]["name"], template["metadata"]["labels"], template["spec"]
    for document in kinds(documents, "ServingRuntime"):
        yield "ServingRuntime " + document["metadata"]["name"], {}, document["spec"]


def containers(spec):
    return spec.get("initContainers", []) + spec["containers"]


def ports(spec):
    """Names and numbers by which a pod's ports are asked for. An init container's names are not looked for: Kubernetes before 1.33
    or so, and some networks (Calico), do not either, sidecar or not."""
    numbers = {port["containerPort"] for container in containers(spec) for port in container.get("ports", [])}
    names = {port["name"] for container in spec["containers"] for port in container.get("ports", []) if "name" in port}
    return numbers | names


def server_of(spec):
    return next(c for c in spec["containers"] if any(a.startswith("--model-repository=") for a in c.get("args", [])))


def seconds(server, flag):
    said = [re.fullmatch(r"--%s=(\d+)s" % flag, argument) for argument in server["args"]]
    return next(int(match.group(1)) for match in said if match)


def _names(documents):
    seen = set()
    for document in documents:
        name = (document["kind"], document["metadata"]["name"])
        if name in seen:
            yield "two documents are %s %s" % name
        seen.add(name)


def _services(documents):
    for service in kinds(documents, "Service"):
        of = [spec for _, labels, spec in pods(documents) if matches(service["spec"]["selector"], labels)]
        if not of:
            yield "Service %s selects no pod" % service["metadata"]["name"]
        for port in service["spec"]["ports"]:
            if any(port["targetPort"] not in ports(spec) for spec in of):
                yield "Service %s sends to port %s, which its pods do not have" % (service["metadata"]["name"], port["targetPort"])


def _selectors(documents):
    for kind, path in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector"), ("Deployment", "selector")):
        for document in kinds(documents, kind):
            selector = document["spec"][path]
            if kind != "NetworkPolicy":
                selector = selector["matchLabels"]
            else:
                selector = selector.get("matchLabels", {})
            of = [spec for _, labels, spec in pods(documents) if matches(selector, labels)]
            if not of:
                yield "%s %s selects no pod" % (kind, document["metadata"]["name"])
            for rule in document["spec"].get("ingress", []) if kind == "NetworkPolicy" else []:
                for port in rule["ports"]:
                    if any(port["port"] not in ports(spec) for spec in of):
                        yield "NetworkPolicy %s opens port %s, which its pods do not have" % (
                            document["metadata"]["name"], port["port"])
    for document in kinds(documents, "ServiceMonitor"):
        of = [s for s in kinds(documents, "Service") if matches(document["spec"]["selector"]["matchLabels"], s["metadata"]["labels"])]
        if not of:
            yield "ServiceMonitor %s selects no Service" % document["metadata"]["name"]
        for endpoint in document["spec"]["endpoints"]:
            if any(endpoint["port"] not in [p["name"] for p in s["spec"]["ports"]] for s in of):
                yield "ServiceMonitor %s scrapes port %s, which its Service does not have" % (
                    document["metadata"]["name"], endpoint["port"])


def _autoscaler(documents):
    deployments = {d["metadata"]["name"]: d for d in kinds(documents, "Deployment")}
    for document in kinds(documents, "HorizontalPodAutoscaler"):
        target = document["spec"]["scaleTargetRef"]
        if target["kind"] != "Deployment" or target["name"] not in deployments:
            yield "HorizontalPodAutoscaler scales %s %s, which is not there" % (target["kind"], target["name"])
        elif "replicas" in deployments[target["name"]]["spec"]:
            yield "Deployment %s has replicas, and so has its autoscaler" % target["name"]


def _volumes(whose, spec, documents):
    have = {volume["name"]: volume for volume in spec.get("volumes", [])}
    maps = [document["metadata"]["name"] for document in kinds(documents, "ConfigMap")]
    for container in containers(spec):
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in have:
                yield "%s mounts %s, which is no volume of it" % (whose, mount["name"])
    for volume in have.values():
        if "configMap" in volume and volume["configMap"]["name"] not in maps:
            yield "%s has a volume of ConfigMap %s, which is not there" % (whose, volume["configMap"]["name"])


def _probes(whose, spec):
    server = server_of(spec)
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = server.get(name)
        if probe is None:
            yield "%s: the server has no %s" % (whose, name)
        elif probe["httpGet"]["port"] not in ports(spec):
            yield "%s: its %s asks port %s, which no container has" % (whose, name, probe["httpGet"]["port"])


def _rights(whose, spec):
    of_pod = spec.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield "%s: %s" % (whose, key)
    for container in containers(spec):
        where = "%s: %s" % (whose, container["name"])
        own = container.get("securityContext", {})
        both = dict(of_pod, **own)
        wanted = [("readOnlyRootFilesystem", own, True), ("allowPrivilegeEscalation", own, False), ("runAsNonRoot", both, True),
                  ("capabilities", own, {"drop": ["ALL"]}), ("seccompProfile", both, {"type": "RuntimeDefault"}),
                  ("runAsUser", both, 65532)]
        for name, at, value in wanted:
            if at.get(name) != value:
                yield "%s has %s %s" % (where, name, at.get(name))
        if own.get("privileged"):
            yield where + " is privileged"
        limits = container.get("resources", {}).get("limits", {})
        for name in ("cpu", "memory"):
            if name not in limits:
                yield "%s has no limit of %s" % (where, name)


def _drain(whose, spec, documents):
    """A pod is not killed while it drains: what clients do not read, and what the proxy beside it may still send, included."""
    server = server_of(spec)
    proxies = [int(match.group(1)) for document in kinds(documents, "ConfigMap")
               for match in [PROXY_HARD_STOP.search(document["data"].get("haproxy.cfg", ""))] if match]
    behind = max(proxies, default=0) if spec.get("initContainers") else 0
    longest = seconds(server, "drain-delay") + seconds(server, "drain-timeout") + BEHIND_DRAIN + behind
    grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    if grace <= longest:
        yield "%s is killed after %d s, while its end may take %d s" % (whose, grace, longest)


def problems(documents):
    found = [*_names(documents), *_services(documents), *_selectors(documents), *_autoscaler(documents)]
    for whose, _, spec in pods(documents):
        found += [*_volumes(whose, spec, documents), *_probes(whose, spec), *_rights(whose, spec), *_drain(whose, spec, documents)]
    return found


def queries(components):
    """(where it stands, the PromQL) of the dashboard and of prometheus-adapter's rule, what they leave open filled in."""
    with open(os.path.join(components, "monitoring/cellbatch.json"), encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    found = [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]
    said, = kustomize.documents_of(os.path.join(components, "autoscale/prometheus_adapter.yaml"))
    for rule in said["rules"]["custom"]:
        found.append(("seriesQuery", rule["seriesQuery"]))
        series = rule["name"]["matches"].strip("^$")
        filled = {"<<.Series>>": series, "<<.LabelMatchers>>": 'namespace="a",pod=~"b|c"', "<<.GroupBy>>": "pod"}
        found.append(("metricsQuery", re.sub("<<[^>]*>>", lambda match: filled[match.group()], rule["metricsQuery"])))
    return [(where, query.replace("$__rate_interval", "1m").replace("$namespace", ".*").replace("$model", ".*"))
            for where, query in found]
