"""tools/check-coroutines with files as arguments."""
import pathlib
import subprocess
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "check-coroutines"


def check(*names):
    return subprocess.run([PROGRAM, *names], capture_output=True, text=True, timeout=60, check=False)


class NamedFiles(unittest.TestCase):
    def test_a_file_without_findings_passes(self):
        done = check("src/cubepi/core/error.cpp")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_a_name_that_does_not_exist_is_an_error(self):
        done = check("src/cubepi/core/error.cpp", "src/no_such_file.cpp")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such file: src/no_such_file.cpp", done.stderr)


if __name__ == "__main__":
    unittest.main()
