import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from report import PARTS, YARDSTICK_NS, Part, Row, benchmarks_of, best_of, numbers


def repetition(name, cpu, real, **counters):
    return {"name": name, "run_name": name, "run_type": "iteration", "time_unit": "us", "cpu_time": cpu, "real_time": real, **counters}


class Report(unittest.TestCase):
    def test_the_fastest_repetition_counts_with_its_counters(self):
        best = best_of([repetition("a", 2.0, 9.0, bytes=1), repetition("a", 1.0, 9.0, bytes=2)])
        self.assertEqual((best["a"]["ns"], best["a"]["bytes"]), (1000.0, 2))

    def test_disk_benchmarks_are_measured_in_wall_time(self):
        self.assertEqual(best_of([repetition("a/real_time", 2.0, 9.0)])["a"]["ns"], 9000.0)

    def test_the_mean_of_repetitions_is_none_of_them(self):
        self.assertEqual(best_of([{**repetition("a", 1.0, 1.0), "run_type": "aggregate"}]), {})

    def test_a_budget_in_time_is_judged_by_the_yardstick_of_the_same_minutes(self):
        slow = {"run": {"ns": 8000.0}, "yardstick": {"ns": 2 * YARDSTICK_NS}}
        self.assertEqual(numbers(Row("run", "run", 5.0, "us", "1", 1e3), slow), (8.0, 5.0, 0.8))

    def test_bytes_and_measured_floors_need_no_yardstick(self):
        best = {"a": {"ns": 1.0, "bytes": 30.0}, "b": {"ns": 2.0}}
        self.assertEqual(numbers(Row("a", "a:bytes", 60.0, "bytes"), best), (30.0, 60.0, None))
        self.assertEqual(numbers(Row("a", "a", "b", "ns"), best), (1.0, 2.0, None))

    def test_ours_the_floor_and_the_yardstick_run_in_one_process(self):
        self.assertEqual(benchmarks_of(Part("p", (Row("a", "x:n", "y", "ns"),))), ["x", "y"])
        self.assertEqual(benchmarks_of(Part("p", (Row("a", "x:n", 5.0, "ns"),))), ["x", "yardstick"])

    def test_each_row_has_a_name_of_its_own_within_its_part(self):
        for part in PARTS:
            names = [row.name for row in part.rows]
            self.assertEqual(len(names), len(set(names)), part.name)


if __name__ == "__main__":
    unittest.main()
