"""A Python that has PyTorch, for tests that compare with it: the one that is there, or Debian's, unpacked beside us.

run(arguments) runs a script with it and answers its CompletedProcess; where there is no PyTorch and none can be had it
raises Unavailable, with the reason. Debian's packages (135 MB) are downloaded and unpacked once into the user's
cache folder; nothing is installed, and no rights are needed. PyPI's build is no alternative: 540 MB, and it does not
start without gigabytes of CUDA libraries.
"""

import fcntl
import glob
import os
import shutil
import subprocess
import sys
import tempfile

PACKAGE = "python3-torch"
PYTHONS = (sys.executable, "/usr/bin/python3")
LIMIT_SECONDS = 600


class Unavailable(Exception):
    """Why there is no PyTorch here, and none can be had."""


def _cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(home, "cellbatch-debian-torch")
    try:
        os.makedirs(folder, exist_ok=True)
        return folder
    except OSError:
        return tempfile.mkdtemp(prefix="cellbatch-torch-")


def _call(command, folder):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode != 0:
        raise Unavailable("%s: %s" % (command[0], (done.stderr.strip() or "failed").splitlines()[-1]))
    return done.stdout


def _missing_packages(folder):
    """-> the package and those it needs that this machine lacks."""
    plan = _call(["apt-get", "install", "--simulate", "--no-install-recommends", PACKAGE], folder)
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]


def _unpack(folder):
    packages = _missing_packages(folder)
    debs = os.path.join(folder, "debs")
    os.makedirs(debs, exist_ok=True)
    _call(["apt-get", "download", "-qq", *packages], debs)
    root = os.path.join(folder, "root")
    for deb in sorted(glob.glob(os.path.join(debs, "*.deb"))):
        _call(["dpkg-deb", "-x", deb, root], folder)
    shutil.rmtree(debs)


def _environment(folder):
    root = os.path.join(folder, "root")
    packages = os.path.join(root, "usr/lib/python3/dist-packages")
    libraries = set()
    for path, _, names in os.walk(root):
        if not path.startswith(packages) and any(".so" in name for name in names):
            libraries.add(path)
    # Debian keeps these two behind alternatives, which are not set up by unpacking.
    libraries.update(glob.glob("/usr/lib/*-linux-gnu/blas") + glob.glob("/usr/lib/*-linux-gnu/lapack"))
    # The reference BLAS answers, at a third of the speed: OpenBLAS goes first where it is installed.
    fast = glob.glob("/usr/lib/*-linux-gnu/openblas-serial")
    return dict(os.environ, PYTHONPATH=packages, LD_LIBRARY_PATH=":".join(fast + sorted(libraries)))


def _has_torch(python, environment):
    try:
        return subprocess.run([python, "-c", "import torch"], env=environment, capture_output=True, timeout=120,
                              check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _find():
    for python in PYTHONS:
        if _has_torch(python, None):
            return python, None
    folder = _cache_folder()
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(folder, "complete")):
            shutil.rmtree(os.path.join(folder, "root"), ignore_errors=True)
            _unpack(folder)
            open(os.path.join(folder, "complete"), "w", encoding="utf-8").close()
    environment = _environment(folder)
    if not _has_torch("/usr/bin/python3", environment):
        raise Unavailable("Debian's packages are unpacked in %s, and do not import" % folder)
    return "/usr/bin/python3", environment


def run(arguments):
    python, environment = _find()
    return subprocess.run([python, *arguments], env=environment, check=False)


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]).returncode)
    except Unavailable as no_torch:
        sys.exit("there is no PyTorch here and none can be had: %s" % no_torch)
