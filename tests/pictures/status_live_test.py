"""The status page of a server that serves: what clients sent is shown and harms nobody, and the lines grow.

    status_live_test.py SERVER CLIENT CONVERT MAKE_MODEL
"""

import html.parser
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

VOID = {"meta", "br"}
EVIL = "</td><script>alert(1)</script>"


class Reader(html.parser.HTMLParser):
    """Tags that nest, and the text without them."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.scripts, self.wrong, self.loads = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))
        self.loads += [value for name, value in attrs if name in ("src", "href", "action", "data", "style") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text.append(data)


class StatusLiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        weights, models = (os.path.join(cls.folder.name, name) for name in ("weights.safetensors", "models"))
        subprocess.run([cls.make_model, "--cell=lstm", "--hidden=16", "--vocab=50", "--seed=1", "--out=" + weights], check=True)
        subprocess.run([cls.convert, "--from=" + weights, "--repository=" + models, "--name=words"], check=True)
        cls.process = subprocess.Popen([cls.server, "--model-repository=" + models, "--drain-delay=0s", *(
            "--%s-address=127.0.0.1:0" % port for port in ("grpc", "http", "metrics"))], stdout=subprocess.PIPE, text=True)
        cls.at = json.loads(cls.process.stdout.readline())
        for words in (["--model=words", "--tokens=1,2,3"], ["--model=words", "--tokens=1,77777"], ["--model=" + EVIL, "--tokens=1"]):
            subprocess.run([cls.client, "infer", "--url=" + cls.at["grpc"], *words], check=False, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.process.send_signal(signal.SIGTERM)
        cls.process.wait(timeout=60)
        cls.process.stdout.close()
        cls.folder.cleanup()

    def get(self, path):
        with urllib.request.urlopen("http://%s%s" % (self.at["http"], path), timeout=30) as reply:
            return reply.headers, reply.read().decode("utf-8")

    def page(self):
        _, text = self.get("/")
        reader = Reader()
        reader.feed(text)
        reader.close()
        return text, reader

    def test_it_is_well_formed_and_what_clients_sent_is_text(self):
        text, reader = self.page()
        self.assertEqual((reader.wrong, reader.open), ([], []))
        self.assertEqual(reader.scripts, ["/status.js"])
        self.assertNotIn("<script>alert", text)
        shown = "".join(reader.text)
        self.assertIn("77777", shown)
        self.assertIn("alert(1)", shown)
        self.assertIn("INVALID_ARGUMENT", shown)
        self.assertEqual([load for load in reader.loads if "//" in load or "url" in load], [])
        self.assertLess(len(text), 100_000)

    def test_its_policy_lets_no_script_run_but_its_own_file(self):
        headers, _ = self.get("/")
        policy = headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertIn("script-src 'self'", policy)
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertIn("script-src 'self'", self.get("/explain/words")[0]["Content-Security-Policy"])
        headers, script = self.get("/status.js")
        self.assertTrue(headers["Content-Type"].startswith("text/javascript"))
        self.assertIn("setInterval", script)

    def test_its_lines_grow_by_themselves(self):
        while True:  # as long as it takes; the test's own time limit ends it
            _, reader = self.page()
            seconds = int(re.search(r"Lines: the last (\d+) s", "".join(reader.text)).group(1))
            if seconds >= 2:
                return
            time.sleep(0.2)


if __name__ == "__main__":
    (StatusLiveTest.server, StatusLiveTest.client, StatusLiveTest.convert,
     StatusLiveTest.make_model) = [os.path.abspath(a) for a in sys.argv[1:]]
    del sys.argv[1:]
    unittest.main(verbosity=2)
