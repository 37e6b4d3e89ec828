"""deploy/kubernetes: every document is valid by Kubernetes' own schema, and says what it must.

The schema checker (kubernetes-validate, which carries the schemas) comes from the package index into a cached
virtual environment; where the index cannot be reached that one test is skipped, aloud. What a pod of ours must
have (probes, limits, no root, a grace period longer than draining) is checked always.
"""

import os
import re
import subprocess
import textwrap
import unittest

import skips
import venv_cache

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy")
MANIFEST = os.path.join(DEPLOY, "kubernetes/cellbatch.yaml")
GPU = os.path.join(DEPLOY, "kubernetes/gpu.yaml")
KUSTOMIZATION = os.path.join(DEPLOY, "kubernetes/kustomization.yaml")
PROXY = os.path.join(DEPLOY, "proxy/haproxy.cfg")

VALIDATE = """
import sys, yaml, kubernetes_validate
documents = [d for d in yaml.safe_load_all(sys.stdin) if d]
for d in documents:
    kubernetes_validate.validate(d, sys.argv[1], strict=True)
print(len(documents))
"""

# RFC 6902 as far as gpu.yaml goes: the documents of stdin, with the operations of argv[1] made to the first.
PATCHED = """
import sys, yaml
documents = [d for d in yaml.safe_load_all(sys.stdin) if d]
for op in yaml.safe_load(open(sys.argv[1])):
    *way, last = [step.replace("~1", "/").replace("~0", "~") for step in op["path"].split("/")[1:]]
    at = documents[0]
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if last == "-":
        at.append(op["value"])
    else:
        assert op["op"] == "add" or last in at, op
        at[last] = op["value"]
yaml.safe_dump_all(documents, sys.stdout)
"""


def patched(python, text):
    done = subprocess.run([python, "-c", PATCHED, GPU], input=text, text=True, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else done.stderr


def run_validator(python, text):
    return subprocess.run([python, "-c", VALIDATE, "1.30"], input=text, text=True, capture_output=True, check=False)


class KubernetesTest(unittest.TestCase):
    def setUp(self):
        with open(MANIFEST, encoding="utf-8") as f:
            self.text = f.read()

    def duration(self, flag):
        return int(re.search(rf"--{flag}=(\d+)s", self.text).group(1))

    def test_every_document_follows_the_schema_and_a_wrong_one_does_not(self):
        try:
            python = venv_cache.python_with(["kubernetes-validate==1.37.0"])
        except skips.Unavailable as reason:
            self.skipTest("the schema was not checked: %s" % reason)
        good = run_validator(python, self.text)
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertEqual(good.stdout.strip(), "4")
        for right, wrong in (("replicas: 2", "replicas: two"), ("httpGet:", "httpGets:"), ("cpu: \"2\"", "cpus: [2]")):
            self.assertIn(right, self.text)
            self.assertNotEqual(run_validator(python, self.text.replace(right, wrong, 1)).returncode, 0, wrong)

    def test_on_gpus_it_is_the_same_pod_with_another_image_a_gpu_and_the_flag_that_uses_it(self):
        with open(KUSTOMIZATION, encoding="utf-8") as f:
            kustomization = f.read()
        self.assertIn("resources:\n  - cellbatch.yaml\npatches:\n  - path: gpu.yaml\n", kustomization)
        try:
            python = venv_cache.python_with(["kubernetes-validate==1.37.0"])
        except skips.Unavailable as reason:
            self.skipTest("the schema was not checked: %s" % reason)
        gpus = patched(python, self.text)
        self.assertEqual(run_validator(python, gpus).returncode, 0, run_validator(python, gpus).stderr)
        for said in ("image: localhost/cellbatch-cuda:latest", "- --devices=cuda\n", "nvidia.com/gpu: 1\n", "maxSurge: 0"):
            self.assertIn(said, gpus)
        for said in ("image: localhost/cellbatch-proxy:latest", "- --grpc-address=127.0.0.1:9001\n", "cpu: '2'"):
            self.assertIn(said, gpus)

    def test_a_pod_is_not_killed_while_it_drains(self):
        grace = int(re.search(r"terminationGracePeriodSeconds: (\d+)", self.text).group(1))
        proxy = int(re.search(r"hard-stop-after (\d+)s", self.text).group(1))
        self.assertGreater(grace, self.duration("drain-delay") + self.duration("drain-timeout") + proxy)

    def test_the_proxy_has_the_configuration_that_is_tested_and_nobody_passes_it_by(self):
        with open(PROXY, encoding="utf-8") as f:
            tested = f.read()
        shipped = self.text.split("  haproxy.cfg: |\n")[1]
        self.assertEqual(textwrap.dedent(shipped), tested)
        for port, behind in ((8000, 9000), (8001, 9001), (8002, 9002)):
            self.assertIn("containerPort: %d\n" % port, self.text)
            self.assertIn("bind :%d" % port, tested)
            self.assertIn("server cellbatch 127.0.0.1:%d" % behind, tested)
        addresses = re.findall(r"--(?:grpc|http|metrics)-address=(\S+):\d+\n", self.text)
        self.assertEqual(addresses, ["127.0.0.1"] * 3)
        self.assertEqual(set(re.findall(r"path: /v2/health/\w+\n +port: (\w+)", self.text)), {"8003"})

    def test_a_pod_has_probes_limits_and_no_rights(self):
        for needed in ("startupProbe:", "readinessProbe:", "livenessProbe:", "limits:", "runAsNonRoot: true",
                       "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "drop: [ALL]"):
            self.assertIn(needed, self.text)


if __name__ == "__main__":
    skips.run_unittests()
