"""@cuda_toolkit: what this machine has of CUDA's toolkit, found and never fetched.

    load("@cuda_toolkit//:defs.bzl", "CUDA_TOOLKIT", "NVCC")

    CUDA_TOOLKIT   its folder, which has include/cuda.h and include/nvrtc.h; "": there is none
    NVCC           its compiler; "": it has none

    @cuda_toolkit//:headers   cuda.h and nvrtc.h, and no library: nothing of ours links CUDA. Empty where they are not.

Nothing of the product depends on it. What does (the check of the table of entry points, compiling the kernels once more with
nvcc) chooses files by whether these are empty, and says aloud what it left out.

Looked for in this order: $CUDA_HOME ("none": nowhere, to build as where there is none), /usr/local/cuda, the wheels of NVIDIA in Debian's Python and in the virtual
environments that tests keep (tests/external/venv_cache.py). Asked again whenever Bazel's server starts, and when
CUDA_HOME changes.
"""

_FIND_WHEELS = """
import glob, os, sys
roots = [p for p in sys.path if p.endswith("-packages")]
cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
roots += sorted(glob.glob(os.path.join(cache, "cellbatch*", "*", "lib", "python3*", "site-packages")))
for root in roots:
    for found in sorted(glob.glob(os.path.join(root, "nvidia", "*", "include", "cuda.h")), reverse=True):
        print(os.path.dirname(os.path.dirname(found)))
"""

_HEADERS = ["cuda.h", "nvrtc.h"]

def _is_toolkit(repository, folder):
    for header in _HEADERS:
        if not repository.path(folder + "/include/" + header).exists:
            return False
    return True

def _find(repository):
    named = repository.os.environ.get("CUDA_HOME", "")
    if named == "none":
        return ""
    if named:
        if not _is_toolkit(repository, named):
            fail("CUDA_HOME is %s, which has no include/cuda.h and include/nvrtc.h" % named)
        return named
    folders = ["/usr/local/cuda"]
    wheels = repository.execute(["python3", "-c", _FIND_WHEELS])
    if wheels.return_code == 0:
        folders += wheels.stdout.split("\n")
    for folder in folders:
        if folder and _is_toolkit(repository, folder):
            return folder
    return ""

def _cuda_toolkit_impl(repository):
    folder = _find(repository)
    nvcc = folder + "/bin/nvcc" if folder and repository.path(folder + "/bin/nvcc").exists else ""
    repository.file("defs.bzl", 'CUDA_TOOLKIT = "%s"\nNVCC = "%s"\n' % (folder, nvcc))
    headers = _HEADERS if folder else []
    for header in headers:
        repository.symlink(folder + "/include/" + header, "include/" + header)
    repository.file("BUILD", """
cc_library(
    name = "headers",
    hdrs = [%s],
    includes = ["include"],
    visibility = ["//visibility:public"],
)
""" % ", ".join(['"include/%s"' % header for header in headers]))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    environ = ["CUDA_HOME"],
    local = True,
)
