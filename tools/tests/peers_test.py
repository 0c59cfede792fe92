import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

PEERS = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "peers"


def load(name):
    """The script without .py at its end, as a module."""
    loader = importlib.machinery.SourceFileLoader("peers_" + name, str(PEERS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


run = load("run")
install = run.install


def table_of(peer, ours):
    table = run.Table(pathlib.Path("nowhere"), run.TURN_COLUMNS, lambda build: ours)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        table.row(peer)
    return table, printed.getvalue()


class Ratios(unittest.TestCase):
    def test_a_peer_is_compared_with_the_better_of_ours_before_and_after(self):
        self.assertEqual(run.best_of_both({"run": 5.0, "idle": 3}, {"run": 4.0, "idle": 4}), {"run": 4.0, "idle": 3})

    def test_the_number_of_events_has_no_ratio(self):
        self.assertEqual(run.times({"run": 8.0, "events": 40}, {"run": 4.0, "events": 20}), {"run": 2.0})

    def test_numbers_have_three_significant_digits(self):
        self.assertEqual([run.digits(value) for value in (None, 0.1234, 1.234, 12.34, 1234.5)], ["-", "0.123", "1.23", "12.3", "1,234"])


class UnavailablePeer(unittest.TestCase):
    def test_is_reported_with_its_reason_and_is_not_a_failure(self):
        def prepare():
            raise install.Missing("needs Go")

        table, printed = table_of(run.Peer("x", "Some system", prepare), {})
        self.assertIn("Some system", printed)
        self.assertIn("not measured: needs Go", printed)
        self.assertEqual(table.failed, [])

    def test_an_installed_peer_that_breaks_is_a_failure(self):
        broken = [sys.executable, "-c", "raise SystemExit('no such call')"]
        table, printed = table_of(run.Peer("x", "Some system", lambda: (broken, broken)), {"turn": 1.0})
        self.assertIn("failed: no such call", printed)
        self.assertEqual(table.failed, ["Some system"])

    def test_the_last_line_of_the_installer_is_the_reason(self):
        with tempfile.TemporaryDirectory() as directory:
            log = pathlib.Path(directory) / "log"
            with self.assertRaisesRegex(install.Missing, "no network here"):
                install.run([sys.executable, "-c", "print('first'); raise SystemExit('no network here')"], directory, log)


class Installing(unittest.TestCase):
    def test_is_repeated_only_after_a_change_of_the_pinned_list(self):
        made = []
        with tempfile.TemporaryDirectory() as directory:
            target = pathlib.Path(directory) / "peer"
            for wanted in ("a==1", "a==1", "a==2"):
                install.once(target, [wanted], lambda: made.append(1))
        self.assertEqual(len(made), 2)

    def test_restarts_after_an_interruption(self):
        def broken():
            raise install.Missing("half way")

        with tempfile.TemporaryDirectory() as directory:
            target = pathlib.Path(directory) / "peer"
            with self.assertRaises(install.Missing):
                install.once(target, ["a==1"], broken)
            made = []
            install.once(target, ["a==1"], lambda: made.append(1))
        self.assertEqual(made, [1])

    def test_every_python_peer_has_a_list_of_exact_versions(self):
        for key in ("cubepi", "langgraph", "openai_agents", "bub"):
            for line in (PEERS / "python" / f"{key}.txt").read_text().splitlines():
                self.assertRegex(line, r"^[A-Za-z0-9_.-]+==[^ ]+$")


if __name__ == "__main__":
    unittest.main()
