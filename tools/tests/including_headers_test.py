"""Tests of tools/including_headers.py."""
import os
import pathlib
import tempfile
import unittest

from tools.including_headers import with_including


class IncludingHeaders(unittest.TestCase):
    def setUp(self):
        self.before = os.getcwd()
        self.directory = tempfile.TemporaryDirectory()
        os.chdir(self.directory.name)
        for name, text in {
            "a.hpp": "#pragma once\n",
            "b.hpp": "#include <cubepi/a.hpp>\n",
            "c.hpp": "  # include \"b.hpp\"\n",
            "d.hpp": "#include <vector>\n// #include <cubepi/a.hpp> is not needed\n",
        }.items():
            path = pathlib.Path("src/cubepi") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.all = {f"src/cubepi/{name}.hpp" for name in "abcd"}

    def tearDown(self):
        os.chdir(self.before)
        self.directory.cleanup()

    def found(self, *changed):
        return {path[-5:-4] for path in with_including([f"src/cubepi/{name}.hpp" for name in changed], self.all)}

    def test_headers_that_include_a_changed_one(self):
        self.assertEqual(self.found("a"), {"a", "b", "c"})
        self.assertEqual(self.found("c", "d"), {"c", "d"})

    def test_missing_files(self):
        self.assertEqual(self.found("deleted"), set())
        self.assertEqual(self.found(), set())
