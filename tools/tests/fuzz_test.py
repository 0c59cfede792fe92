import base64
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
FILE = pathlib.Path(__file__).resolve().parent.parent / "fuzz"
LOADER = importlib.machinery.SourceFileLoader("fuzz", str(FILE))
fuzz = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", LOADER))
LOADER.exec_module(fuzz)


class Complaint(unittest.TestCase):
    def test_the_report_contains_the_input(self):
        data = bytes(range(256)) * 3
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "input"
            file.write_bytes(data)
            text = fuzz.complaint("cubepi_fuzz_sse", "noise\nnot so: a == b\n", file)
        self.assertIn("not so: a == b", text)
        self.assertIn("build/fuzz/bin/cubepi_fuzz_sse input", text)
        self.assertIn("tests/fuzz/corpus/sse", text)
        inside = re.search(r"<<'END'\n(.*?)\nEND\n", text, re.DOTALL).group(1)
        self.assertEqual(base64.b64decode(inside), data)

    def test_the_report_states_that_no_input_was_saved(self):
        self.assertIn("did not save an input", fuzz.complaint("cubepi_fuzz_sse", "", None))


if __name__ == "__main__":
    unittest.main()
