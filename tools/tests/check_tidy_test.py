"""Files that are checked as one: which, and what happens if one of them is not clean."""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

TOOLS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))
LOADER = importlib.machinery.SourceFileLoader("check_tidy", str(TOOLS / "check-tidy"))
check_tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(check_tidy)


class Batches(unittest.TestCase):
    def setUp(self):
        self.names = [f"src/a/{number:02}.cpp" for number in range(check_tidy.FEW_FILES + 1)]
        self.commands = {name: f"clang++ -Isrc -o {name}.o -c {name}" for name in self.names}
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        for patch in (mock.patch.object(check_tidy, "BUILD", pathlib.Path(scratch.name)), mock.patch.dict(os.environ, {"ALL": ""})):
            patch.start()
            self.addCleanup(patch.stop)

    def batches(self, names):
        return check_tidy.batches_of(names, self.commands)

    def test_few_files_are_read_one_by_one(self):
        self.assertEqual([[name] for name in self.names[1:]], self.batches(self.names[1:]))
        with mock.patch.dict(os.environ, {"ALL": "1"}):
            self.assertEqual([[name] for name in self.names], self.batches(self.names))

    def test_batch_has_one_set_of_options(self):
        self.commands[self.names[3]] = f"clang++ -DOTHER -o {self.names[3]}.o -c {self.names[3]}"
        batches = self.batches(self.names)
        self.assertEqual(self.names, sorted(sum(batches, [])))
        self.assertIn([self.names[3]], batches)
        self.assertEqual(check_tidy.FILES_PER_BATCH, len(batches[0]))

    def test_finding_is_that_of_its_file(self):
        def run(name, arguments):
            source = next(pathlib.Path(word) for word in arguments if word.endswith(".cpp"))
            text = source.read_text() if source.is_file() else str(source)
            is_conflict = self.names[0] in text and self.names[1] in text
            return (1, f"finding in {name}") if is_conflict or self.names[5] in text else (0, "")

        with mock.patch.object(check_tidy, "run", run):
            clean, findings = check_tidy.tidy(self.names[:8], self.commands)
        self.assertEqual(self.names[:5] + self.names[6:8], clean)
        self.assertEqual(f"finding in {self.names[5]}", findings)


if __name__ == "__main__":
    unittest.main()
