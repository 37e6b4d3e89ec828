"""What cellbatch-convert says of flags that cannot be, before it touches anything."""

import os
import subprocess
import sys
import tempfile
import unittest

CONVERT = os.path.realpath(sys.argv.pop(1))


class ConvertMainTest(unittest.TestCase):
    def run_convert(self, *flags):
        return subprocess.run([CONVERT, *flags], text=True, capture_output=True, check=False)

    def refused(self, *flags):
        done = self.run_convert(*flags)
        self.assertEqual(done.returncode, 2, flags)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_help_names_every_flag(self):
        asked = self.run_convert("--help")
        self.assertEqual(asked.returncode, 0)
        for flag in ("--from", "--precision", "--inputs", "--learn-order"):
            self.assertIn("\n  " + flag + " ", asked.stdout)
        unasked = self.run_convert()
        self.assertEqual((unasked.returncode, unasked.stdout), (2, asked.stdout))

    def test_what_is_no_value_or_no_flag_is_named(self):
        self.assertEqual(self.refused("--version=soon"),
                         "cellbatch-convert: --version soon: no such value, it takes N\n")
        self.assertEqual(self.refused("model.onnx"), 'cellbatch-convert: what is "model.onnx"? See --help.\n')
        self.assertIn("--form", self.refused("--form=a.onnx"))

    def test_a_file_of_another_kind_is_told_what_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, said in (("model.pt", True), ("model.safetensors", False)):
                path = os.path.join(folder, name)
                with open(path, "wb") as file:
                    file.write(b"PK\x03\x04" + bytes(100))  # as torch.save begins
                done = self.run_convert("--from=" + path, "--repository=" + folder, "--name=m")
                self.assertEqual(done.returncode, 1)
                self.assertIn(path + ": the header says it has", done.stderr)
                self.assertEqual("; --from takes a state_dict as .safetensors" in done.stderr, said, name)

    def test_sequences_of_which_nothing_would_be_measured_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--from=absent.onnx", "--repository=" + folder, "--name=m", "--inputs=some.safetensors")
            for precision in ((), ("--precision=FP32",)):
                text = self.refused(*flags, *precision)
                self.assertRegex(text, r"--inputs some\.safetensors with --precision FP32: .*leave --inputs out\n")
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
