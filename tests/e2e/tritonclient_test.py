"""pip's unmodified tritonclient, over gRPC and over HTTP, against the real server, or skipped aloud where no package index is reached.

    tritonclient_test.py SERVER CONVERT
"""

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


def serve(server, convert, folder):
    repository = os.path.join(folder, "models")
    for cell in ("lstm", "gru"):
        path = os.path.join(folder, cell + ".safetensors")
        small_state_dict.save(path, small_state_dict.draw(cell, SEED))
        subprocess.run([convert, "--from", path, "--repository", repository, "--name", cell], check=True,
                       stdout=subprocess.DEVNULL)
    shutil.copytree(os.path.join("deploy", "models", "tagger"), os.path.join(repository, "tagger"))
    return subprocess.Popen([server, "--model-repository", repository, "--drain-delay=0", "--grpc-address=127.0.0.1:0",
                             "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--model-control=explicit",
                             "--load-model=*", "--log-control", "--trace-control",
                             "--trace-otlp=http://127.0.0.1:1/v1/traces"], stdout=subprocess.PIPE, text=True)


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
    with tempfile.TemporaryDirectory() as folder, serve(server, convert, folder) as running:
        try:
            ports = ready_ports(running)
            status = 0
            for script, addresses in (("tritonclient_calls.py", [ports["grpc"]]),
                                      ("tritonclient_http_calls.py", [ports["http"], ports["grpc"]])):
                status |= subprocess.run([python, os.path.join(HERE, script), *addresses, str(SEED)],
                                         check=False).returncode
        finally:
            running.send_signal(signal.SIGTERM)
        return status or running.wait()


if __name__ == "__main__":
    sys.exit(main())
