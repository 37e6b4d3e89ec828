"""deploy/kubernetes, rendered for three sets of values: every name that is said is there, pods have no rights, nothing is cut off.

Without a network and without kustomize: kustomize.py renders. schema_test adds Kubernetes' own schemas and the real kustomize,
metrics_test what a server under test says.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import kustomize
import manifest_rules

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy")
KUBERNETES = os.path.join(DEPLOY, "kubernetes")
FOLDERS = ("base", "overlays/small-cpu", "overlays/large-cpu", "overlays/gpu", "kserve")


def rendered(folder):
    return kustomize.render(os.path.join(KUBERNETES, folder))


def one(documents, kind):
    found, = manifest_rules.kinds(documents, kind)
    return found


def pod(documents):
    return one(documents, "Deployment")["spec"]["template"]["spec"]


def set_at(*way):
    """What puts a value somewhere in the pod of the Deployment."""
    def change(documents):
        at = pod(documents)
        for step in way[:-2]:
            at = at[step]
        at[way[-2]] = way[-1]
    return change


def port_of(kind, *way, port="htpp"):
    def change(documents):
        at = one(documents, kind)["spec"]
        for step in way[:-1]:
            at = at[step]
        at[way[-1]] = port
    return change


def rename(kind):
    def change(documents):
        one(documents, kind)["metadata"]["name"] = "other"
    return change


def relabel(documents):
    one(documents, "Deployment")["spec"]["template"]["metadata"]["labels"] = {"app": "other"}


def twice(documents):
    documents.append(copy.deepcopy(one(documents, "Service")))


def replicas(documents):
    one(documents, "Deployment")["spec"]["replicas"] = 2


# (what is changed in large-cpu, the problems that it makes)
WRONG = [
    (relabel, ["Service cellbatch selects no pod", "PodDisruptionBudget cellbatch selects no pod",
               "Deployment cellbatch selects no pod", "NetworkPolicy cellbatch selects no pod"]),
    (twice, ["two documents are Service cellbatch"]),
    (replicas, ["Deployment cellbatch has replicas, and so has its autoscaler"]),
    (rename("Deployment"), ["HorizontalPodAutoscaler scales Deployment cellbatch, which is not there"]),
    (port_of("Service", "ports", 0, "targetPort"), ["Service cellbatch sends to port htpp, which its pods do not have"]),
    # It is there, but an init container's.
    (port_of("Service", "ports", 0, "targetPort", port="grpc"), ["Service cellbatch sends to port grpc, which its pods do not have"]),
    (port_of("ServiceMonitor", "endpoints", 0, "port"), ["ServiceMonitor cellbatch scrapes port htpp, which its Service does not have"]),
    (port_of("NetworkPolicy", "ingress", 0, "ports", 0, "port"),
     ["NetworkPolicy cellbatch opens port htpp, which its pods do not have"]),
    (port_of("NetworkPolicy", "ingress", 0, "ports", 0, "port", port="http"),
     ["NetworkPolicy cellbatch opens port http, which its pods do not have"]),
    (set_at("containers", 0, "livenessProbe", "httpGet", "port", 8005),
     ["Deployment cellbatch: its livenessProbe asks port 8005, which no container has"]),
    (set_at("containers", 0, "readinessProbe", None), ["Deployment cellbatch: the server has no readinessProbe"]),
    (set_at("containers", 0, "volumeMounts", 0, "name", "modles"), ["Deployment cellbatch mounts modles, which is no volume of it"]),
    (set_at("volumes", 1, "configMap", "name", "proxies"),
     ["Deployment cellbatch has a volume of ConfigMap proxies, which is not there"]),
    (set_at("terminationGracePeriodSeconds", 61), ["Deployment cellbatch is killed after 61 s, while its end may take 61 s"]),
    (set_at("hostNetwork", True), ["Deployment cellbatch: hostNetwork"]),
    (set_at("securityContext", "seccompProfile", {"type": "Unconfined"}),
     ["Deployment cellbatch: %s has seccompProfile {'type': 'Unconfined'}" % c for c in ("proxy", "cellbatch")]),
    (set_at("securityContext", "runAsNonRoot", False),
     ["Deployment cellbatch: %s has runAsNonRoot False" % c for c in ("proxy", "cellbatch")]),
    (set_at("containers", 0, "securityContext", "readOnlyRootFilesystem", False),
     ["Deployment cellbatch: cellbatch has readOnlyRootFilesystem False"]),
    (set_at("initContainers", 0, "securityContext", "allowPrivilegeEscalation", None),
     ["Deployment cellbatch: proxy has allowPrivilegeEscalation None"]),
    (set_at("initContainers", 0, "securityContext", "capabilities", {"drop": ["ALL"], "add": ["NET_RAW"]}),
     ["Deployment cellbatch: proxy has capabilities {'drop': ['ALL'], 'add': ['NET_RAW']}"]),
    (set_at("containers", 0, "securityContext", "privileged", True), ["Deployment cellbatch: cellbatch is privileged"]),
    (set_at("containers", 0, "resources", {"limits": {"cpu": "1"}}), ["Deployment cellbatch: cellbatch has no limit of memory"]),
]


class KubernetesTest(unittest.TestCase):
    def test_every_name_is_there_pods_have_no_rights_and_drain_in_time(self):
        for folder in FOLDERS:
            with self.subTest(folder):
                self.assertEqual(manifest_rules.problems(rendered(folder)), [])

    def test_each_thing_that_is_not_so_is_found(self):
        for change, problems in WRONG:
            documents = rendered("overlays/large-cpu")
            change(documents)
            with self.subTest(problems[0]):
                self.assertEqual(sorted(manifest_rules.problems(documents)), sorted(problems))

    def test_the_three_sets_of_values_are_what_they_are_called(self):
        small, large, gpu = (rendered("overlays/" + name) for name in ("small-cpu", "large-cpu", "gpu"))
        sizes = [pod(d)["containers"][0]["resources"]["limits"] for d in (small, large, gpu)]
        self.assertEqual(sizes, [{"cpu": "1", "memory": "512Mi"}, {"cpu": "16", "memory": "32Gi"},
                                 {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": 1}])
        self.assertEqual(one(small, "Deployment")["spec"]["replicas"], 1)
        self.assertEqual(one(large, "HorizontalPodAutoscaler")["spec"]["maxReplicas"], 12)
        self.assertEqual(pod(gpu)["containers"][0]["image"], "localhost/cellbatch-cuda:latest")
        self.assertIn("--devices=cuda", pod(gpu)["containers"][0]["args"])
        self.assertEqual([len(d) for d in (small, large, gpu)], [5, 8, 7])

    def test_on_gpus_it_is_the_base_with_another_image_a_gpu_and_the_flag_that_uses_it(self):
        base, gpu = rendered("base"), rendered("overlays/gpu")
        container = pod(gpu)["containers"][0]
        self.assertEqual(one(gpu, "Deployment")["spec"]["strategy"]["rollingUpdate"], {"maxUnavailable": 1, "maxSurge": 0})
        container["image"] = "localhost/cellbatch:latest"
        container["args"].remove("--devices=cuda")
        del container["resources"]["limits"]["nvidia.com/gpu"]
        del pod(gpu)["tolerations"]
        self.assertEqual(pod(gpu), pod(base))

    def test_the_proxy_has_the_configuration_that_is_tested_and_nobody_passes_it_by(self):
        with open(os.path.join(DEPLOY, "proxy/haproxy.cfg"), encoding="utf-8") as file:
            tested = file.read()
        documents = rendered("base")
        self.assertEqual(one(documents, "ConfigMap")["data"]["haproxy.cfg"], tested)
        proxy = {port["containerPort"] for port in pod(documents)["initContainers"][0]["ports"]}
        args = pod(documents)["containers"][0]["args"]
        for flag, port, behind in (("http", 8000, 9000), ("grpc", 8001, 9001), ("metrics", 8002, 9002)):
            self.assertIn(port, proxy)
            self.assertIn("bind :%d" % port, tested)
            self.assertIn("server cellbatch 127.0.0.1:%d" % behind, tested)
            self.assertIn("--%s-address=127.0.0.1:%d" % (flag, behind), args)
        self.assertNotIn("ports", pod(documents)["containers"][0])

    def test_the_dashboard_is_the_one_that_its_maker_makes(self):
        monitoring = os.path.join(KUBERNETES, "components/monitoring")
        made = subprocess.run([sys.executable, os.path.join(monitoring, "make_dashboard"), "--stdout"], text=True,
                              capture_output=True, check=True).stdout
        with open(os.path.join(monitoring, "cellbatch.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), made, "run deploy/kubernetes/components/monitoring/make_dashboard")
        panels = json.loads(made)["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for place in (panel["gridPos"] for panel in panels):
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, "two panels lie on each other at %s" % place)
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells


class KustomizeTest(unittest.TestCase):
    """The renderer refuses what it cannot do."""

    def kustomization(self, text, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        files = dict(files, kustomization=text, map="kind: ConfigMap\nmetadata: {name: a}\ndata: {k: v, l: [1, 2]}\n")
        for name, content in files.items():
            with open(os.path.join(folder.name, name + ".yaml"), "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(content))
        return folder.name

    def patched(self, operations):
        folder = self.kustomization("resources: [map.yaml]\npatches: [{target: {kind: ConfigMap, name: a}, path: p.yaml}]\n",
                                    p=json.dumps(operations))
        return kustomize.render(folder)[0]["data"]

    def test_json_patches_are_rfc_6902s(self):
        self.assertEqual(self.patched([{"op": "add", "path": "/data/l/-", "value": 3}]), {"k": "v", "l": [1, 2, 3]})
        self.assertEqual(self.patched([{"op": "add", "path": "/data/l/0", "value": 0}]), {"k": "v", "l": [0, 1, 2]})
        self.assertEqual(self.patched([{"op": "add", "path": "/data/a~1b~0c", "value": 1}]), {"k": "v", "l": [1, 2], "a/b~c": 1})
        self.assertEqual(self.patched([{"op": "remove", "path": "/data/l"}, {"op": "replace", "path": "/data/k", "value": 2}]),
                         {"k": 2})

    def test_what_it_cannot_do_it_refuses(self):
        refused = ["namePrefix: a\n", "images: []\n", "resources: [map.yaml]\npatches: [{path: map.yaml}]\n",
                   "resources: [map.yaml]\npatches: [{target: {kind: ConfigMap, name: a}, patch: '{data: {k: w}}'}]\n",
                   "resources: [map.yaml]\npatches: [{target: {kind: ConfigMap, name: b}, patch: '[]'}]\n",
                   "configMapGenerator: [{name: a, files: [map.yaml]}]\n",
                   "configMapGenerator: [{name: a, literals: [b=c], options: {disableNameSuffixHash: true}}]\n"]
        for text in refused:
            with self.subTest(text), self.assertRaises(kustomize.Unsupported):
                kustomize.render(self.kustomization(text))
        for operation in ({"op": "replace", "path": "/data/none", "value": 1}, {"op": "remove", "path": "/data/l/2"},
                          {"op": "test", "path": "/data/k", "value": "v"}, {"op": "add", "path": "/none/k", "value": 1}):
            with self.subTest(operation), self.assertRaises(kustomize.Unsupported):
                self.patched([operation])


if __name__ == "__main__":
    unittest.main(verbosity=2)
