"""tools/check-coroutines with files as arguments."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "check-coroutines"


def check(*names):
    return subprocess.run([PROGRAM, *names], capture_output=True, text=True, timeout=60, check=False)


def complaints(text):
    sys.path.insert(0, str(PROGRAM.parent))
    loader = importlib.machinery.SourceFileLoader("check_coroutines", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_coroutines", loader))
    loader.exec_module(module)
    return list(module.check("some.cpp", text))


class RangesThatDangle(unittest.TestCase):
    def test_a_member_of_a_temporary_result_is_found(self):
        for range_of in ('run(store->load("t"))->messages', 'cubepi::run(load()).value().list', "(co_await load())->messages"):
            self.assertEqual(len(complaints(f"int f;\nfor (auto& one : {range_of}) {{ g(one); }}\n")), 1, range_of)

    def test_results_that_live_as_long_as_the_loop_pass(self):
        for range_of in ("run(list())", "stored->messages", "run(list()).entries", "message.user()->content"):
            self.assertEqual(complaints(f"for (auto& one : {range_of}) {{ g(one); }}\n"), [], range_of)


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
