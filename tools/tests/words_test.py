"""tools/check-words: prose, names and the marker."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))
loader = importlib.machinery.SourceFileLoader("check_words", str(TOOLS / "check-words"))
words = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(words)


class DeniedWords(unittest.TestCase):
    def found(self, path, text):
        return [(line, word) for line, word, _ in words.denied_words(path, text)]

    def found_names(self, path, text):
        return [(line, name) for line, name, _ in words.denied_names(path, text)]

    # words: allowed, an input with denied words
    def test_comments_and_string_literals_of_cpp_are_prose(self):
        source = 'int room = 1;  // a room\nf("Nobody");\n/* it\n goes on */\n#include <room.hpp>  // beside\nR"(\nanew)";\n'
        self.assertEqual(self.found("a.cpp", source), [(1, "room"), (2, "Nobody"), (4, "goes on"), (5, "beside"), (7, "anew")])

    # words: allowed, an input with denied words
    def test_a_comment_does_not_begin_with_a_relative_clause(self):
        source = "/// What a store has.\nint a;\n/// Checks\n/// what a store has.\n// Checks it.\n// What else?\nint b;\n"
        self.assertEqual(self.found("a.hpp", source), [(1, "What")])

    # words: allowed, an input with denied words
    def test_comments_and_strings_of_scripts_are_prose(self):
        self.assertEqual(self.found("a.py", 'room = 1  # a room\nx = """b\nfolder"""\n'), [(1, "room"), (3, "folder")])
        self.assertEqual(self.found("run", 'folder=1 # a folder\necho "$folder is no path"\n'),
                         [(1, "folder"), (2, "folder"), (2, "is no")])

    # words: allowed, an input with denied words
    def test_code_spans_and_link_targets_of_a_page_are_not_prose(self):
        page = "A room, `room` and [x](folder/y.md).\n```cpp\nint room;  // a folder\n```\n```sh\nls folder\n```\nbeside\n"
        self.assertEqual(self.found("a.md", page), [(1, "room"), (3, "folder"), (6, "folder"), (8, "beside")])

    # words: allowed, an input with denied words
    def test_whole_words_in_any_case(self):
        self.assertEqual(self.found("a.md", "cubepi_room, check-rooms, bedroom, there is no longer a way\n"), [])
        self.assertEqual(self.found("a.md", "WHOEVER Gives\n"), [(1, "WHOEVER"), (1, "Gives")])

    # words: allowed, an input with denied words
    def test_names_are_split_into_words(self):
        source = 'int kept_bytes;\nTEST(Loop, ItGoesOnD16) {}\nint user_room_;  // is_no\nbedroom("nobody"); CURLOPT_NOBODY;\nint kept_bytes;\n'
        self.assertEqual(self.found_names("a.cpp", source), [(1, "kept_bytes"), (2, "ItGoesOnD16"), (3, "user_room_")])

    # words: allowed, an input with denied words
    def test_names_of_python_count_and_words_of_pages_do_not(self):
        source = "def test_it_is_no_input(self):\n    folder = 'room'  # nobody\n"
        self.assertEqual(self.found_names("a.py", source), [(1, "test_it_is_no_input"), (2, "folder")])
        self.assertEqual(self.found_names("run", "#!/usr/bin/env python3\nsaid = 1\n"), [(2, "said")])
        self.assertEqual(self.found_names("a.md", "kept_bytes\n"), [])

    # words: allowed, an input with denied words
    def test_words_that_are_denied_only_in_names_are_allowed_in_prose(self):
        self.assertEqual(self.found("a.cpp", "int kept;  // is kept as usual\n"), [])
        self.assertEqual(self.found_names("a.cpp", "int kept;  // words: allowed, a reason\n"), [])

    # words: allowed, an input with denied words
    def test_a_marker_with_a_reason_allows_its_line(self):
        self.assertEqual(self.found("a.cpp", "// a room  (words: allowed, a chat room)\n// a room\n"), [(2, "room")])
        self.assertEqual(self.found("a.cpp", "// a room  (words: allowed)\n"), [(1, "room")])

    # words: allowed, an input with denied words
    def test_a_marker_alone_allows_the_block_that_follows(self):
        marker = "<!-- words: allowed, a quotation -->\n"
        self.assertEqual(self.found("a.md", marker + "room\nroom\n\nroom\n"), [(5, "room")])
        self.assertEqual(self.found("a.md", marker + "\n```\nroom\n\nroom\n```\nroom\n"), [(8, "room")])

    # words: allowed, an input with denied words
    def test_a_finding_names_the_place_the_word_and_the_remedy(self):
        with tempfile.TemporaryDirectory() as directory:
            page = pathlib.Path(directory) / "page.md"
            page.write_text("\nWhoever calls it\n")
            done = subprocess.run([TOOLS / "check-words", "--file", page], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("page.md:2: 'Whoever': use the caller", done.stderr)


if __name__ == "__main__":
    unittest.main()
