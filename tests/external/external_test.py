"""Where other people's software cannot be had, each test that compares with it names what it skipped, and why."""

import os
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

import skips
import venv_cache

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TWO_SKIPS_OF_FOUR = """
import unittest
import skips
class Some(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): self.skipTest("no\\nindex & <no> mirror")
    def test_c(self): self.skipTest("no disk")
    def test_d(self): self.fail("really")
skips.run_unittests()
"""


class ExternalTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def nowhere(self):
        """An environment in which pip finds nothing, there is no apt-get, and nobody has PyTorch."""
        modules = os.path.join(self.folder, "modules")
        os.makedirs(modules, exist_ok=True)
        with open(os.path.join(modules, "torch.py"), "w", encoding="utf-8") as file:
            file.write('raise ImportError("none here")\n')
        path = [modules, os.path.dirname(os.path.abspath(skips.__file__)), *os.environ.get("PYTHONPATH", "").split(":")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        return dict(kept, CUDA_HOME="none", PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull, PATH=self.folder, PYTHONPATH=":".join(path),
                    XDG_CACHE_HOME=os.path.join(self.folder, "cache"),
                    XML_OUTPUT_FILE=os.path.join(self.folder, "test.xml"))

    def cases(self, command, environment=None):
        """Runs a test -> (its exit status, {case: why it was skipped, or None})."""
        environment = environment or self.nowhere()
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
        try:
            root = ElementTree.parse(environment["XML_OUTPUT_FILE"]).getroot()
        except (OSError, ElementTree.ParseError):
            self.fail("no report: %s" % done.stderr)
        found = {}
        for case in root.iter("testcase"):
            skip = case.find("skipped")
            found["%s.%s" % (case.get("classname"), case.get("name"))] = None if skip is None else skip.get("message")
        return done.returncode, found

    def expect_skipped(self, command, names, others=()):
        """-> why each of `names` was skipped; `others` ran."""
        status, found = self.cases([os.path.join(TESTS, command[0]), *command[1:]])
        self.assertEqual(status, 0)
        self.assertEqual(sorted(found), sorted([*names, *others]))
        for name in names:
            self.assertTrue(found[name], name + " ran")
        for name in others:
            self.assertIsNone(found[name])
        return [found[name] for name in names]

    def test_tritonclient(self):
        reason, = self.expect_skipped(["e2e/tritonclient_test.py", "no-server", "no-convert"], ["tritonclient.calls"])
        self.assertIn("cannot install tritonclient[grpc,http] numpy: ERROR: No matching distribution", reason)

    def test_perf_analyzer(self):
        reason, = self.expect_skipped(["e2e/perf_analyzer_test.py", "no-server", "no-convert"], ["perf_analyzer.loads"])
        self.assertIn("cannot install tritonclient==2.45.0", reason)

    def test_pytorch(self):
        self.expect_skipped(["golden/torch_live_test.py", "no-check"], ["PyTorch.random_modules"])

    def test_onnx_runtime_and_pytorch(self):
        reasons = self.expect_skipped(["golden/onnx_live_test.py", "no-check"], [
            "OnnxRuntime.written_graphs", "OnnxRuntime.exported_modules", "PyTorch.exported_modules"])
        self.assertIn("cannot install numpy onnx onnxruntime", reasons[0])

    def test_cudas_headers_and_compiler(self):
        reasons = self.expect_skipped(
            ["cuda_kernels/toolkit_test.py", "no-print-source", "no-compile-source", "no-libcuda"], [
                "ToolkitTest.test_every_entry_point_has_the_type_of_cudas_headers",
                "ToolkitTest.test_every_kernel_compiles_at_load",
                "ToolkitTest.test_every_kernel_compiles_without_spills",
                "ToolkitTest.test_kernels_for_gpus_whose_blocks_have_less_shared_memory_compile_without_spills",
                "ToolkitTest.test_what_nvrtc_refuses_is_said_in_its_words"])
        self.assertIn("not held against CUDA: cannot install nvidia-cuda-nvcc", reasons[0])

    def test_the_schemas_of_the_manifests(self):
        self.expect_skipped(["deploy/schema_test.py"], ["SchemaTest.test_" + name for name in (
            "the_real_kustomize_renders_the_same", "what_kubernetes_defines_follows_its_schema_and_a_wrong_one_does_not",
            "pods_of_kserve_are_pods_by_kubernetes_schema", "kserves_resources_have_no_key_that_its_sdk_does_not_know",
            "the_service_monitor_is_one_of_prometheus_operator",
            "every_query_of_the_dashboard_and_of_the_autoscaler_is_promql")])

    def test_a_unittest_reports_every_case_and_fails_as_ever(self):
        script = os.path.join(self.folder, "some_test.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(TWO_SKIPS_OF_FOUR)
        status, found = self.cases([script])
        self.assertNotEqual(status, 0)
        self.assertEqual(found, {"Some.test_a": None, "Some.test_b": "no index & <no> mirror", "Some.test_c": "no disk",
                                 "Some.test_d": None})

    def test_of_several_shards_each_runs_its_share_and_all_run_every_test_once(self):
        script = os.path.join(self.folder, "some_test.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(TWO_SKIPS_OF_FOUR)
        shares = []
        for shard in range(3):
            touched = os.path.join(self.folder, "shard_%d" % shard)
            status, found = self.cases([script], dict(self.nowhere(), TEST_TOTAL_SHARDS="3", TEST_SHARD_INDEX=str(shard),
                                                      TEST_SHARD_STATUS_FILE=touched))
            self.assertEqual(status != 0, "Some.test_d" in found)
            self.assertTrue(os.path.exists(touched), "Bazel takes it for a test that runs everything in each shard")
            shares.append(sorted(found))
        self.assertEqual(shares, [["Some.test_a", "Some.test_d"], ["Some.test_b"], ["Some.test_c"]])

    def test_an_installer_that_fails_without_a_word_is_a_reason_too(self):
        def last(err, out=""):
            return venv_cache._last_word(subprocess.CompletedProcess(["pip"], 7, out, err))
        self.assertEqual(last(""), "pip ended with status 7")
        self.assertEqual(last("", "out of luck\n"), "out of luck")
        self.assertEqual(last("ERROR: no such thing\n[notice] a new pip is there\n"), "ERROR: no such thing")


if __name__ == "__main__":
    unittest.main()
