"""CUDA's headers and compiler for tests that want them: what this machine has, or the package index.

folder() answers a toolkit's folder, with include/cuda.h, include/nvrtc.h and bin/nvcc; or it raises skips.Unavailable,
with the reason; ValueError where $CUDA_HOME names a folder that is none. Looked for in this order: $CUDA_HOME ("none": not on this machine), /usr/local/cuda, NVIDIA's wheels,
installed as venv_cache says. Nothing that is built or shipped needs any of it.
"""

import glob
import os

import skips
import venv_cache

# nvcc's own parts, too: it asks for any of CUDA 13, and a later nvvm writes what its ptxas cannot read.
WHEELS = [part + "==13.0.*" for part in ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime",
                                         "nvidia-cuda-nvrtc")]
PARTS = ["include/cuda.h", "include/nvrtc.h", "bin/nvcc"]


def _missing(folder):
    return [part for part in PARTS if not os.path.exists(os.path.join(folder, part))]


def folder():
    named = os.environ.get("CUDA_HOME", "")
    if named not in ("", "none"):
        if _missing(named):
            raise ValueError("CUDA_HOME is %s, which has no %s" % (named, ", no ".join(_missing(named))))
        return named
    if not named and not _missing("/usr/local/cuda"):
        return "/usr/local/cuda"
    python = venv_cache.python_with(WHEELS)
    environment = os.path.dirname(os.path.dirname(python))
    for found in glob.glob(os.path.join(environment, "lib", "python3*", "site-packages", "nvidia", "cu13")):
        if not _missing(found):
            return found
    raise skips.Unavailable("the wheels of %s have no %s" % (" ".join(WHEELS), ", ".join(PARTS)))
