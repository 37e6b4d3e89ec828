"""deploy/trim_cache: what goes, what stays."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest
import unittest.mock

BLOCK = 4096
DAY = 24 * 3600


def load(path):
    loader = importlib.machinery.SourceFileLoader("trim_cache", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("trim_cache", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


trim_cache = load(sys.argv.pop(1))


class TrimCacheTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = folder.name
        os.makedirs(os.path.join(self.cache, "ac", "00"))
        os.makedirs(os.path.join(self.cache, "cas", "ff"))

    def write(self, name, written, read):
        """One block of `name`, written and read at these times."""
        path = os.path.join(self.cache, name)
        with open(path, "wb") as file:
            file.write(bytes(BLOCK))
        os.utime(path, (read, written))
        return path

    def left(self):
        return sorted(name for folder in ("ac/00", "cas/ff") for name in os.listdir(os.path.join(self.cache, folder)))

    def trim(self, limit, reserve=0, free=0):
        return trim_cache.trim(self.cache, limit, reserve, free)

    def test_what_was_longest_not_used_goes_first(self):
        self.write("ac/00/old", 1 * DAY, 1 * DAY)
        self.write("cas/ff/read_since", 1 * DAY, 9 * DAY)
        self.write("cas/ff/middle", 5 * DAY, 5 * DAY)
        self.write("ac/00/new", 8 * DAY, 8 * DAY)
        before, after = self.trim(limit=2 * BLOCK)
        self.assertEqual((before, after), (4 * BLOCK, 2 * BLOCK))
        self.assertEqual(self.left(), ["new", "read_since"])

    def test_a_cache_within_its_limit_stays_whole(self):
        for name in ("ac/00/a", "cas/ff/b", "cas/ff/c"):
            self.write(name, DAY, DAY)
        self.assertEqual(self.trim(limit=3 * BLOCK), (3 * BLOCK, 3 * BLOCK))
        self.assertEqual(self.left(), ["a", "b", "c"])

    def test_a_full_disk_takes_what_the_limit_would_leave(self):
        for day in range(1, 7):
            self.write("cas/ff/%d" % day, day * DAY, day * DAY)
        self.trim(limit=6 * BLOCK, reserve=5 * BLOCK, free=BLOCK)
        self.assertEqual(self.left(), ["5", "6"])

    def test_a_disk_that_others_fill_takes_all_and_ends(self):
        self.write("ac/00/a", DAY, DAY)
        self.assertEqual(self.trim(limit=BLOCK, reserve=1 << 60), (BLOCK, 0))
        self.assertEqual(self.left(), [])

    def test_what_cannot_be_deleted_stays_and_ends_nothing(self):
        for day in (1, 2, 3):
            self.write("cas/ff/%d" % day, day * DAY, day * DAY)

        def refuse_the_first(path):
            if path.endswith("1"):
                raise PermissionError(path)
            real(path)

        real = os.remove
        with unittest.mock.patch("os.remove", refuse_the_first):
            self.assertEqual(self.trim(limit=BLOCK), (3 * BLOCK, BLOCK))
        self.assertEqual(self.left(), ["1"])

    def test_the_next_reading_can_be_noted_again(self):
        # With relatime the kernel notes a reading only where the one noted is no later than the writing.
        path = self.write("cas/ff/a", 1 * DAY, 3 * DAY)
        self.trim(limit=BLOCK)
        status = os.stat(path)
        self.assertEqual((status.st_atime, status.st_mtime), (3 * DAY, 3 * DAY))

    def test_half_written_files_go_when_nobody_writes_them_any_more(self):
        stale = self.write("6e43ce4f-f67b", 1 * DAY, 1 * DAY)
        with open(os.path.join(self.cache, "71b1e7ad-49dc"), "wb") as file:
            file.write(b"being written")
        trim_cache.remove_half_written(self.cache)
        self.assertFalse(os.path.exists(stale))
        self.assertTrue(os.path.exists(file.name))

    def run_main(self, *arguments):
        """-> what it said to both streams."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            trim_cache.main(["--cache=" + self.cache, *arguments])
        return said.getvalue()

    def test_says_what_it_did_and_nothing_else(self):
        self.write("ac/00/a", DAY, DAY)
        self.assertEqual(self.run_main("--reserve=0"), "")
        self.assertIn("0.0 kept", self.run_main("--limit=0", "--reserve=0"))
        self.assertIn("a whole build may write 1e+09", self.run_main("--reserve=1e9"))

    def test_no_cache_is_no_error_and_bounds_are_numbers(self):
        with tempfile.TemporaryDirectory() as empty:
            trim_cache.main(["--cache=" + os.path.join(empty, "none")])
        for wrong in ("--limit=-1", "--limit=inf", "--reserve=nan", "--limit=much"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                trim_cache.main(["--cache=" + self.cache, wrong])


if __name__ == "__main__":
    unittest.main()
