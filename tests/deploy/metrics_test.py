"""What deploy/kubernetes asks of the server, asked of one: metrics and their labels, paths of probes and scrapes, flags.

    metrics_test.py SERVER CLIENT CONVERT MAKE_MODEL
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import kustomize
import manifest_rules

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
KUBERNETES = os.path.join(ROOT, "deploy/kubernetes")
FOLDERS = ("base", "overlays/small-cpu", "overlays/large-cpu", "overlays/gpu", "kserve")
OF_PROMETHEUS = {"namespace", "pod", "job"}  # labels that a scrape adds


def series_of(text):
    """Metric -> the labels that its series have, as an exposition says."""
    found = {}
    for line in text.splitlines():
        match = re.match(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$', line)
        if match and not line.startswith("#"):
            found.setdefault(match.group(1), set()).update(re.findall(r'(\w+)="', match.group(2) or ""))
    return found


def metrics_of(readme):
    """Those of the table under "What the metrics mean"."""
    table = readme.split("## What the metrics mean")[1].split("\n## ")[0]
    said = [name for line in table.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]*)`", line.split("|")[1])]
    names = []
    for name in said:
        begin, choices, end = re.fullmatch(r"([^{]*)(?:\{([^}]*)\}(.*))?", name).groups()
        names += [begin + choice + end for choice in choices.split(",")] if end else [begin]
    return names


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        weights, models = (os.path.join(cls.folder.name, name) for name in ("weights.safetensors", "models"))
        subprocess.run([cls.make_model, "--cell=lstm", "--hidden=16", "--vocab=50", "--seed=1", "--out=" + weights], check=True)
        subprocess.run([cls.convert, "--from=" + weights, "--repository=" + models, "--name=words"], check=True)
        cls.process = subprocess.Popen(
            [cls.server, "--model-repository=" + models, "--drain-delay=0s", *("--%s-address=127.0.0.1:0" % port
                                                                               for port in ("grpc", "http", "metrics"))],
            stdout=subprocess.PIPE, text=True)
        cls.at = json.loads(cls.process.stdout.readline())
        subprocess.run([cls.client, "infer", "--url=" + cls.at["grpc"], "--model=words", "--tokens=1,2,3"], check=True,
                       stdout=subprocess.DEVNULL)
        cls.models = models
        cls.series = series_of(cls.get("metrics", "/metrics"))
        cls.queries = manifest_rules.queries(os.path.join(KUBERNETES, "components"))

    @classmethod
    def tearDownClass(cls):
        cls.process.send_signal(signal.SIGTERM)
        cls.process.wait(timeout=60)
        cls.process.stdout.close()
        cls.folder.cleanup()

    @classmethod
    def get(cls, port, path):
        with urllib.request.urlopen("http://%s%s" % (cls.at[port], path), timeout=30) as reply:
            return reply.read().decode()

    def rendered(self, folder):
        return kustomize.render(os.path.join(KUBERNETES, folder))

    def test_every_query_asks_for_metrics_and_labels_that_the_server_exports(self):
        for where, query in self.queries:
            metrics = re.findall(r"([a-z_:][\w:]*)\{([^}]*)\}", query)
            self.assertTrue(metrics, query)
            by = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
            for metric, selector in metrics:
                self.assertIn(metric, self.series, where)
                asked = by | set(re.findall(r'(\w+)(?:=~|!=|=)"', selector))
                self.assertEqual(asked - self.series[metric] - OF_PROMETHEUS, set(), "%s: labels of %s" % (where, metric))

    def test_the_dashboard_draws_every_metric_that_the_readme_names(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            named = metrics_of(file.read())
        self.assertIn("cellbatch_request_queue_seconds", named)
        self.assertGreaterEqual(len(named), 13)
        drawn = " ".join(query for where, query in self.queries if where not in ("seriesQuery", "metricsQuery"))
        for name in named:
            self.assertRegex(drawn, r"\b%s(_bucket|_sum|_count)?\{" % name)

    def test_the_autoscaler_looks_at_what_the_adapter_makes_of_queue_time(self):
        rule, = kustomize.documents_of(os.path.join(KUBERNETES, "components/autoscale/prometheus_adapter.yaml"))[0]["rules"]["custom"]
        scaler, = manifest_rules.kinds(self.rendered("overlays/large-cpu"), "HorizontalPodAutoscaler")
        metric, = scaler["spec"]["metrics"]
        self.assertEqual(metric["pods"]["metric"]["name"], rule["name"]["as"])
        series = rule["seriesQuery"].split("{")[0]
        self.assertEqual(series, "cellbatch_request_queue_seconds_bucket")
        self.assertRegex(series, rule["name"]["matches"])
        self.assertEqual(set(rule["resources"]["overrides"]), {"namespace", "pod"})

    def test_what_is_probed_and_scraped_is_answered(self):
        for folder in FOLDERS:
            documents = self.rendered(folder)
            for _, _, spec in manifest_rules.pods(documents):
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    self.get("http", manifest_rules.server_of(spec)[probe]["httpGet"]["path"])
            for monitor in manifest_rules.kinds(documents, "ServiceMonitor"):
                for endpoint in monitor["spec"]["endpoints"]:
                    self.assertIn("cellbatch_ready 1", self.get("metrics", endpoint["path"]))
            for runtime in manifest_rules.kinds(documents, "ServingRuntime"):
                self.get("metrics", runtime["spec"]["annotations"]["prometheus.kserve.io/path"])

    def test_every_flag_of_every_pod_is_one_and_has_a_value_that_it_takes(self):
        flags = set(re.findall(r"^\s*--([\w-]+)", subprocess.run([self.server, "--help"], text=True, capture_output=True,
                                                               check=True).stdout, re.M))
        self.assertIn("model-repository", flags)
        for folder in FOLDERS:
            for whose, _, spec in manifest_rules.pods(self.rendered(folder)):
                args = manifest_rules.server_of(spec)["args"]
                self.assertEqual({arg[2:].split("=")[0] for arg in args} - flags, set(), whose)
                done = self.checked([arg for arg in args if not arg.startswith("--model-repository=")])
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.checked(["--row-budget=4GiBs"]).returncode, 2)
        self.assertEqual(self.checked(["--drain-delays=1s"]).returncode, 2)

    def checked(self, args):
        return subprocess.run([self.server, *args, "--model-repository=" + self.models, "--check"], text=True, capture_output=True,
                              check=False)


if __name__ == "__main__":
    (MetricsTest.server, MetricsTest.client, MetricsTest.convert, MetricsTest.make_model) = [os.path.abspath(a) for a in sys.argv[1:]]
    del sys.argv[1:]
    unittest.main(verbosity=2)
