"""Triton's unmodified perf_analyzer, over gRPC and over HTTP, against the real server, or skipped aloud where no package index is reached.

    perf_analyzer_test.py SERVER CONVERT

The program is inside of an older wheel of tritonclient; it needs Debian's libb64-0d (deploy/packages.txt) and CUDA's runtime
library, which is a wheel, too. No figure of its is judged: what counts is that it finds what it asks of a server, that no
call of its fails, and that what it says it was answered agrees with what the server says it answered.
"""

import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "external")]

import skips  # noqa: E402  (found in ../external)
import small_state_dict  # noqa: E402  (found beside this file)
import tritonclient_test  # noqa: E402  (found beside this file)
import venv_cache  # noqa: E402

PACKAGES = ["tritonclient==2.45.0", "nvidia-cuda-runtime-cu12"]
# Any spread of latencies is stable: a busy machine's must not decide.
ALWAYS = ["--shape", "TOKENS:20", "--input-data", "zero", "--measurement-mode", "count_windows",
          "--measurement-request-count", "100", "--stability-percentage", "1000000"]
LOADS = {"closed": ["-m", "lstm", "--concurrency-range", "1:4:3"],
         "open": ["-m", "lstm", "-a", "--request-rate-range", "50", "--request-distribution", "poisson"],
         # Sequences of four pieces, whose state the server keeps: the model's configuration asks for them. Not by
         # asynchronous calls, its own choice: when a level ends it sends the last piece of each sequence under way
         # without having the answer to the piece before, and over HTTP's connections a last may overtake a first.
         "sequences": ["-m", "stream", "--sync", "--concurrency-range", "1:4:3", "--sequence-length", "4"]}


def page_of(metrics):
    with urllib.request.urlopen("http://%s/metrics" % metrics) as page:
        return page.read().decode()


def answered(metrics, model):
    """-> {outcome: requests of the model that ended so}, as the server counts."""
    found = re.findall(r'^cellbatch_requests_total\{model="%s",.*outcome="(\w+)".*\} (\d+)$' % model, page_of(metrics),
                       re.MULTILINE)
    return {outcome: int(count) for outcome, count in found}


def sequences(metrics):
    """-> {what: sequences that did so}, as the server counts."""
    return {what: int(count) for what, count in re.findall(
        r'^cellbatch_sequence_changes_total\{what="(\w+)"\} (\d+)$', page_of(metrics), re.MULTILINE)}


def measure(python, protocol, load, addresses):
    model = LOADS[load][1]
    environment = os.path.dirname(os.path.dirname(python))
    libraries, = {os.path.dirname(path) for path in glob.glob(
        os.path.join(environment, "lib", "python*", "site-packages", "nvidia", "*", "lib", "libcudart.so.12"))}
    before, began = answered(addresses["metrics"], model), sequences(addresses["metrics"])
    done = subprocess.run(
        [os.path.join(environment, "bin", "perf_analyzer"), *ALWAYS, *LOADS[load], "-i", protocol,
         "-u", addresses[protocol]],
        env=dict(os.environ, LD_LIBRARY_PATH=libraries), capture_output=True, text=True, check=False)
    after, ended = answered(addresses["metrics"], model), sequences(addresses["metrics"])
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    clients = [int(count) for count in re.findall(r"Client: \n +Request count: (\d+)", said)]
    servers = [int(count) for count in re.findall(r"Successful request count: (\d+)", said)]
    assert len(clients) == len(servers) == (1 if load == "open" else 2), said
    # Both count what ended in a window, and the windows' ends are not quite the same.
    assert all(client >= 100 for client in clients), said
    assert sum(servers) <= after["ok"] - before.get("ok", 0), (before, after, said)
    assert sum(clients) <= after["ok"] - before.get("ok", 0), (before, after, said)
    others = {outcome: count for outcome, count in after.items() if outcome not in ("ok", "cancelled")}
    assert not any(others.values()), (others, said)
    made = {what: count - began[what] for what, count in ended.items()}
    if load == "sequences":
        # Those that it had under way when it was through are left as they are.
        assert made["ended"] >= sum(clients) // 8 and made["started"] - made["ended"] <= 8, (made, said)
    else:
        assert not any(made.values()), (made, said)
    print("perf_analyzer, %s, %s: %d answers, of which it counted %d; %d sequences" % (
        protocol, load, after["ok"] - before.get("ok", 0), sum(clients), made["started"]))


def make_stream(convert, folder):
    """A model whose configuration asks tools for sequences."""
    repository, weights = os.path.join(folder, "models"), os.path.join(folder, "stream.safetensors")
    small_state_dict.save(weights, small_state_dict.draw("lstm", tritonclient_test.SEED))
    subprocess.run([convert, "--from", weights, "--repository", repository, "--name", "stream"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(repository, "stream", "config.textproto"), "a", encoding="utf-8") as config:
        config.write("sequences: ON\n")


def main():
    server, convert = (os.path.abspath(path) for path in sys.argv[1:3])
    report = skips.Report()
    try:
        python = venv_cache.python_with(PACKAGES)
    except skips.Unavailable as reason:
        report.skipped("perf_analyzer.loads", reason)
        return 0
    report.ran("perf_analyzer.loads")
    with tempfile.TemporaryDirectory() as folder:
        make_stream(convert, folder)
        with tritonclient_test.serve(server, convert, folder) as running:
            try:
                addresses = tritonclient_test.ready_ports(running)
                for protocol in ("grpc", "http"):
                    for load in LOADS:
                        measure(python, protocol, load, addresses)
            finally:
                running.send_signal(signal.SIGTERM)
            return running.wait()


if __name__ == "__main__":
    sys.exit(main())
