"""pip's unmodified tritonclient, over gRPC and over HTTP, against the real server, or skipped aloud where no package index is reached.

    tritonclient_test.py SERVER CONVERT
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "external")]

import skips  # noqa: E402  (found in ../external)
import small_state_dict  # noqa: E402  (found beside this file)
import venv_cache  # noqa: E402

SEED = 2026
PACKAGES = ["tritonclient[grpc,http]", "numpy"]


def certificates(folder):
    """A root, and what it issues to the server and to its client."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=a root", "-days", "2")
    for name in ("tls", "own"):
        openssl("req", "-x509", *key, "-keyout", name + ".key", "-out", name + ".crt", "-subj", "/CN=localhost", "-days", "2",
                "-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-addext", "basicConstraints=critical,CA:FALSE")


def secure(folder):
    """Flags of a server that speaks TLS, asks for certificates, and knows two tokens."""
    certificates(folder)
    with open(os.path.join(folder, "tokens"), "w", encoding="utf-8") as tokens:
        for name, token, more in (("search", "s3arch", 'models: "lstm"'), ("operator", "0perator", "may_control: true")):
            digest = hashlib.sha256(token.encode()).hexdigest()
            tokens.write('token { name: "%s" sha256: "%s" %s }\n' % (name, digest, more))
    return ["--%s=%s" % (flag, os.path.join(folder, name)) for flag, name in (
        ("tls-certificate", "tls.crt"), ("tls-key", "tls.key"), ("tls-client-ca", "ca.crt"), ("tokens", "tokens"))]


def serve(server, convert, folder, flags=()):
    repository = os.path.join(folder, "models")
    for cell in ("lstm", "gru"):
        path = os.path.join(folder, cell + ".safetensors")
        small_state_dict.save(path, small_state_dict.draw(cell, SEED))
        if not os.path.exists(os.path.join(repository, cell)):
            subprocess.run([convert, "--from", path, "--repository", repository, "--name", cell], check=True,
                           stdout=subprocess.DEVNULL)
    shutil.copytree(os.path.join("deploy", "models", "tagger"), os.path.join(repository, "tagger"), dirs_exist_ok=True)
    return subprocess.Popen([server, "--model-repository", repository, "--drain-delay=0", "--grpc-address=127.0.0.1:0",
                             "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--model-control=explicit",
                             "--load-model=*", "--log-control", "--trace-control",
                             "--trace-otlp=http://127.0.0.1:1/v1/traces", *flags], stdout=subprocess.PIPE, text=True)


def ready_ports(running):
    """What the started server says when it is ready: {"grpc": "HOST:PORT", ..}."""
    return json.loads(running.stdout.readline())


def main():
    server, convert = (os.path.abspath(path) for path in sys.argv[1:3])
    report = skips.Report()
    try:
        python = venv_cache.python_with(PACKAGES)
    except skips.Unavailable as reason:
        report.skipped("tritonclient.calls", reason)
        return 0
    report.ran("tritonclient.calls")
    print("seed %d" % SEED, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        status = calls(python, serve(server, convert, folder, []),
                       [("tritonclient_calls.py", ["grpc"], []), ("tritonclient_http_calls.py", ["http", "grpc"], [])])
        return status or calls(python, serve(server, convert, folder, secure(folder)),
                               [("tritonclient_tls_calls.py", ["grpc", "http"], [folder])])


def calls(python, running, scripts):
    """What the scripts end with, or the server after them."""
    with running:
        try:
            ports = ready_ports(running)
            status = 0
            for script, named, more in scripts:
                addresses = [ports[name] for name in named]
                status |= subprocess.run([python, os.path.join(HERE, script), *addresses, *more, str(SEED)],
                                         check=False).returncode
        finally:
            running.send_signal(signal.SIGTERM)
        return status or running.wait()


if __name__ == "__main__":
    sys.exit(main())
