"""Python packages for tests that compare with other people's software, where the package index can be reached.

python_with(["numpy", ...]) answers the interpreter of a virtual environment that has them: made once, kept under
the user's cache folder by the names asked for. Where that cannot be done (no index, no venv module) it raises
skips.Unavailable with the reason, and the test skips that part, aloud. Nothing is installed outside that folder.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

import skips

LIMIT_SECONDS = 600  # one installation; far more than a slow mirror takes


def _cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(home, "cellbatch-venv")
    try:
        os.makedirs(folder, exist_ok=True)
        return folder
    except OSError:
        return tempfile.mkdtemp(prefix="cellbatch-venv-")


def _build(folder, packages, options):
    python = os.path.join(folder, "bin", "python")
    steps = ([sys.executable, "-m", "venv", folder],
             [python, "-m", "pip", "install", "-q", "--no-input", "--retries", "1", *options, *packages])
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode != 0:
            return _last_word(done)
    return None


def _last_word(done):
    """Of a program that failed: its last line, or the last that says "error", for pip goes on with notices."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["%s ended with status %d" % (done.args[0], done.returncode)])[-1].strip()


def python_with(packages, options=()):
    """The interpreter of an environment with `packages` (requirement strings), or skips.Unavailable."""
    name = hashlib.sha256("\n".join([sys.version, *packages, *options]).encode()).hexdigest()[:16]
    folder = os.path.join(_cache_folder(), name)
    python = os.path.join(folder, "bin", "python")
    with open(folder + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two tests may want the same one at once
        if os.path.exists(os.path.join(folder, "complete")):
            return python
        shutil.rmtree(folder, ignore_errors=True)
        problem = _build(folder, packages, options)
        if problem is None:
            open(os.path.join(folder, "complete"), "w", encoding="utf-8").close()
            return python
    shutil.rmtree(folder, ignore_errors=True)
    raise skips.Unavailable("cannot install %s: %s" % (" ".join(packages), problem))
