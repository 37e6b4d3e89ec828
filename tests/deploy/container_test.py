"""The image for machines with GPUs, where there is none: what `deploy/container stage --cuda` lays out, run without docker or podman.

    container_test.py SERVER CLIENT CONVERT EMULATED_NVRTC

The server runs by the folder's own loader with the folder's own libraries, and nothing of the system's cache of them. NVRTC's
place is taken by the emulated one, so that this is the same on machines with CUDA and without.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

DEPLOY = os.path.abspath("deploy")


def run(command, **more):
    return subprocess.run(command, text=True, capture_output=True, check=False, **more)


class ContainerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        base = cls.folder.name
        cls.toolkit = os.path.join(base, "toolkit")
        os.makedirs(os.path.join(cls.toolkit, "lib64"))
        for name in ("libnvrtc.so.13", "libnvrtc-builtins.so.13.0"):
            shutil.copy(cls.nvrtc, os.path.join(cls.toolkit, "lib64", name))
        cls.root = os.path.join(base, "root")
        cls.stage(cls.root, "--cuda")
        with open(os.path.join(DEPLOY, "cuda/Containerfile"), encoding="utf-8") as file:
            cls.containerfile = file.read()
        cls.models = cls.make_model(base)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def stage(cls, root, *options):
        subprocess.run([os.path.join(DEPLOY, "container"), "stage", root, cls.server, cls.client, *options], check=True,
                       env={**os.environ, "CUDA_HOME": cls.toolkit})

    @classmethod
    def make_model(cls, folder):
        weights, models = os.path.join(folder, "weights.safetensors"), os.path.join(folder, "models")
        subprocess.run([os.path.join(DEPLOY, "models/make_model"), "--cell=lstm", "--hidden=16", "--vocab=50", "--seed=1",
                        "--out=" + weights], check=True)
        subprocess.run([cls.convert, "--from=" + weights, "--repository=" + models, "--name=words"], check=True)
        return models

    def entry(self, *options):
        """The image's command line, in the staged folder. A GPU that this machine has is hidden."""
        entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", self.containerfile, re.M).group(1))
        loader = os.path.join(self.root, "lib64/ld-linux-x86-64.so.2")
        libraries = ":".join(sorted({folder for folder, _, files in os.walk(self.root) for f in files if ".so" in f}))
        here = [word.replace("=/cuda", "=" + self.root + "/cuda") for word in entry[1:]]
        return [loader, "--inhibit-cache", "--library-path", libraries, self.root + entry[0], *here,
                "--model-repository=" + self.models, "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0",
                "--metrics-address=127.0.0.1:0", "--drain-delay=0", *options]

    ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"}

    def refused(self, *arguments):
        """What the command says instead of doing anything, with a docker that does nothing."""
        tools = os.path.join(self.folder.name, "tools")
        os.makedirs(tools, exist_ok=True)
        with open(os.open(os.path.join(tools, "docker"), os.O_CREAT | os.O_WRONLY, 0o755), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        done = run([os.path.join(DEPLOY, "container"), *arguments], cwd=self.folder.name,
                   env={**os.environ, "PATH": tools + ":" + os.environ["PATH"]})
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        return done.stderr

    def test_what_it_does_not_know_is_said_and_nothing_is_done(self):
        self.assertEqual(self.refused("stage", "never", self.server, "--cudda"),
                         "deploy/container: unknown option --cudda (see --help)\n")
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "never")))
        nowhere = os.path.realpath(self.folder.name) + "/no/such/models"
        self.assertEqual(self.refused("run", "no/such/models"), "deploy/container: no such model repository: %s\n" % nowhere)
        self.assertEqual(self.refused("run", self.models, "--cuda"),
                         "deploy/container: run takes no --cuda: --tag=localhost/cellbatch-cuda:latest names that image\n")

    def test_it_has_the_programs_nvrtc_and_every_library_that_they_name(self):
        self.assertEqual(sorted(os.listdir(os.path.join(self.root, "cuda"))), ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"])
        files = [os.path.join(self.root, "bin", os.path.basename(p)) for p in (self.server, self.client)]
        for file in [*files, os.path.join(self.root, "cuda/libnvrtc.so.13")]:
            for library in re.findall(r"=> (/\S+)", run(["ldd", file]).stdout):
                self.assertTrue(os.path.exists(self.root + library), "%s of %s" % (library, file))

    def test_scanners_are_told_of_every_package_that_a_file_of_the_image_is_of(self):
        status = os.path.join(self.root, "var/lib/dpkg/status.d")
        told = {}
        for name in os.listdir(status):
            with open(os.path.join(status, name), encoding="utf-8") as file:
                text = file.read()
            told[name] = re.search(r"^Version: (.+)$", text, re.M).group(1)
            self.assertIn("Package: %s\n" % name, text)
        self.assertLessEqual({"libc6", "libstdc++6", "libgrpc29", "libprotobuf32", "libssl3"}, set(told))
        libraries = [os.path.join(folder, f)[len(self.root):] for folder, _, files in os.walk(self.root) for f in files if ".so" in f]
        self.assertGreater(len(libraries), 20)
        for library in libraries:
            if library.startswith("/cuda/"):
                continue
            known = [run(["dpkg-query", "--search", path]).stdout
                     for path in (library, "/usr" + library, library.removeprefix("/usr"))]
            package = re.split("[:,]", next(k for k in known if k))[0]
            self.assertIn(package, told, library)
            self.assertEqual(told[package], run(["dpkg-query", "--show", "-f", "${Version}", package]).stdout)
        with open(os.path.join(self.root, "etc/os-release"), encoding="utf-8") as file:
            self.assertRegex(file.read(), "VERSION_CODENAME=")

    def test_an_image_says_what_it_is_who_runs_it_and_how_it_ends(self):
        for name in ("Containerfile", "cuda/Containerfile"):
            with open(os.path.join(DEPLOY, name), encoding="utf-8") as file:
                text = file.read()
            for label in ("title", "description", "version", "revision", "created", "licenses"):
                self.assertIn("org.opencontainers.image.%s=" % label, text)
            for line in ("USER 65532:65532", "STOPSIGNAL SIGTERM", "HEALTHCHECK "):
                self.assertIn("\n" + line, text)
            # `docker stop` waits for ten seconds; behind the drain clients that do not read take six (server/server_stop.cc).
            flags = json.loads(re.search(r"^CMD (\[.*\])$", text.replace("\\\n", ""), re.M).group(1))
            drain = [int(re.fullmatch(r"--drain-(?:delay|timeout)=(\d+)s", flag).group(1)) for flag in flags if "--drain-" in flag]
            self.assertEqual(len(drain), 2)
            self.assertLessEqual(sum(drain) + 6, 10)
            checked = run([self.server, *flags, "--model-repository=" + self.models, "--check"])
            self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_the_driver_is_the_machines(self):
        for _, _, files in os.walk(self.root):
            self.assertEqual([f for f in files if f.startswith("libcuda.so")], [])
        self.assertIn("NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility", self.containerfile)

    def test_the_image_without_gpus_has_nothing_of_cuda(self):
        bare = os.path.join(self.folder.name, "bare")
        self.stage(bare)
        self.assertFalse(os.path.exists(os.path.join(bare, "cuda")))

    def test_told_to_use_gpus_it_ends_with_one_line(self):
        done = run(self.entry("--devices=cuda"), env=self.ENVIRONMENT, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r'\A[^\n]*error devices: "cuda": cuda: [^\n]*\n\Z')
        self.assertEqual(done.stdout, "")

    def test_told_nothing_it_serves_on_the_cpu_and_says_why(self):
        server = subprocess.Popen(self.entry(), env=self.ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            ready = json.loads(server.stdout.readline() or "{}")
            self.assertTrue(ready.get("ready"))
            answered = run([self.client, "infer", "--url=" + ready["grpc"], "--model=words", "--tokens=1,2,3"])
            self.assertEqual(answered.returncode, 0, answered.stderr)
        finally:
            server.send_signal(signal.SIGTERM)
            _, log = server.communicate(timeout=60)
        self.assertEqual(server.returncode, 0, log)
        self.assertEqual(len(re.findall(r"devices: cpu:.*; no GPU: cuda: ", log)), 1, log)

    def test_without_nvrtc_there_is_no_such_image(self):
        nowhere = os.path.join(self.folder.name, "nowhere")
        if run([os.path.join(DEPLOY, "find_nvrtc")], env={**os.environ, "CUDA_HOME": nowhere}).returncode == 0:
            return  # this machine has it anyway
        done = run([os.path.join(DEPLOY, "container"), "stage", nowhere, self.server, "--cuda"],
                   env={**os.environ, "CUDA_HOME": nowhere})
        self.assertEqual(done.returncode, 1)
        self.assertIn("no NVRTC here", done.stderr)


if __name__ == "__main__":
    (ContainerTest.server, ContainerTest.client, ContainerTest.convert,
     ContainerTest.nvrtc) = [os.path.abspath(a) for a in sys.argv[1:]]
    del sys.argv[1:]
    unittest.main(verbosity=2)
