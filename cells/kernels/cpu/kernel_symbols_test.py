"""Kernel objects share no function with the rest of the program.

A function with external linkage that every object may define (inline, template: nm's W, V and u) is kept once by the
linker, from whichever object it meets first. If that is one built with -mavx512f, an old CPU runs AVX-512 in code that
has nothing to do with kernels, and stops at an illegal instruction. So what a kernel object shows to the linker is its
table, and nothing of it runs before main. Arguments: KERNELS... -- an archive that must be found wanting.
"""

import re
import subprocess
import sys
import unittest

# Its table; what asks tile registers whether they work; and what the compiler makes of itself: data, never code.
ALLOWED = re.compile(r"[DRB] cellbatch::kernels::k[A-Z]\w*Kernels$"
                     r"|[DRB] cellbatch::kernels::kTilesMultiplyRight$"
                     r"|V DW\.ref\.__gxx_personality_v0$"
                     r"|B __odr_asan\.\w+$")


def defined_symbols(archive):
    out = subprocess.run(["nm", "--demangle", "--defined-only", archive], check=True, capture_output=True, text=True)
    return out.stdout


def shared(nm_output):
    """'TYPE name' of every symbol that the linker may give to others, or that runs before main, and should not be there."""
    found = []
    for line in nm_output.splitlines():
        match = re.match(r"[0-9a-f]+ (\w) (.+)$", line)
        if not match:
            continue
        kind, name = match.groups()
        starts = name.startswith("_GLOBAL__sub_I_")
        external = kind.isupper() or kind in "iuvw"
        if starts or (external and not ALLOWED.match(kind + " " + name)):
            found.append(kind + " " + name)
    return found


class KernelSymbolsTest(unittest.TestCase):
    kernels, wanting = [], []

    def test_a_kernel_object_shows_its_table_and_nothing_else(self):
        self.assertEqual(len(self.kernels), 5)
        for archive in self.kernels:
            text = defined_symbols(archive)
            self.assertEqual(len(re.findall(r" [DRB] cellbatch::kernels::k\w+Kernels$", text, re.M)), 1, archive)
            self.assertEqual(shared(text), [], archive)

    def test_an_object_with_inline_functions_is_found(self):
        for archive in self.wanting:
            found = shared(defined_symbols(archive))
            self.assertTrue([s for s in found if s.startswith("W ")], found)

    def test_every_kind_of_shared_symbol_is_found(self):
        for bad in ("T f()", "W std::vector<int>::size() const", "V vtable for X", "u X::y", "i ifunc()",
                    "t _GLOBAL__sub_I_x", "T cellbatch::kernels::kAvx2Kernels", "D cellbatch::kernels::kMore"):
            self.assertEqual(shared("0000000000000010 " + bad), [bad])
        for good in ("t f()", "r table", "D cellbatch::kernels::kAvx512Kernels", "b x"):
            self.assertEqual(shared("0000000000000010 " + good), [])


if __name__ == "__main__":
    split = sys.argv.index("--")
    KernelSymbolsTest.kernels, KernelSymbolsTest.wanting = sys.argv[1:split], sys.argv[split + 1:]
    unittest.main(argv=sys.argv[:1])
