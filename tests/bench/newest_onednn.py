#!/usr/bin/env python3
"""Runs a benchmark with the newest oneDNN libraries that can be installed here as peers.

    newest_onednn.py PROGRAM ARGUMENTS...      PROGRAM ARGUMENTS... --peers=FILE,FILE

Two Python wheels carry the shared library: `onednn`, Intel's newest release, built for SYCL (it computes on CPUs through
the OpenCL runtime that comes with it), and `paddlepaddle`, an older one built for OpenMP, which costs less a call. They
are installed once into a folder of the user's cache (some 3 GB). What cannot be had is said aloud, and the benchmark runs
without it.
"""

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "external"))
import skips  # noqa: E402  (both found beside this file's folder, wherever it is run)
import venv_cache  # noqa: E402


def _folder_of(packages, options, pattern):
    """The folder of the one library that matches, in an environment with `packages`; None where that cannot be had."""
    try:
        python = venv_cache.python_with(packages, options)
    except skips.Unavailable as why:
        print(f"NO PEER FROM {' '.join(packages)}: {why}", file=sys.stderr)
        return None
    found = sorted(glob.glob(os.path.join(os.path.dirname(os.path.dirname(python)), pattern)))
    if not found:
        print(f"NO PEER FROM {' '.join(packages)}: it holds no {pattern}", file=sys.stderr)
        return None
    return os.path.dirname(found[0])


def main():
    program = sys.argv[1:]
    peers = []
    sycl = _folder_of(["onednn"], (), "lib/libdnnl.so.3")
    if sycl is not None:
        peers.append(os.path.join(sycl, "libdnnl.so.3"))
        # Where SYCL finds its parts, and OpenCL the one driver that computes on CPUs.
        before = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = sycl + (":" + before if before else "")
        os.environ["OCL_ICD_FILENAMES"] = os.path.join(sycl, "libintelocl.so")
    openmp = _folder_of(["paddlepaddle"], ("--no-deps",), "lib/python*/site-packages/paddle/libs/libdnnl.so.3")
    if openmp is not None:
        peers.append(os.path.join(openmp, "libdnnl.so.3"))
    if not peers:
        print("NO NEWER oneDNN COULD BE INSTALLED: the system's libraries are the only peers", file=sys.stderr)
    if peers:
        program.append("--peers=" + ",".join(peers))
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
