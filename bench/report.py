#!/usr/bin/env python3
"""Runs the benchmarks part by part and prints ours against the floor, each row as soon as it is known.

usage: report.py BENCH_BINARY CUBEPI_BINARY [--instructions] [--only PART]...
"""

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

# Cost of one lap of yardstick_bench.cpp on the idle two-core machine of the budgets.
YARDSTICK_NS = 3000.0


@dataclasses.dataclass(frozen=True)
class Row:
    """`ours` and `floor` name a benchmark, or a benchmark's counter (BENCHMARK:COUNTER); a floor may be a number of the budget."""
    name: str
    ours: str
    floor: object
    unit: str
    budget: str = "-"
    divisor: float = 1.0


@dataclasses.dataclass(frozen=True)
class Part:
    """Benchmarks of one process. Their repetitions alternate, so that a slow moment affects ours and the floor alike."""
    name: str
    rows: tuple
    repetitions: int = 9
    seconds: float = 0.05
    program: str = ""  # another binary next to that of the benchmarks; the part is left out if it was not built
    in_memory: bool = False  # files are in a memory file system: bytes are measured, not the disk


def wire_rows(wire):
    decoded, walked = f"decode_{wire}:ns_per_delta", f"simdjson_{wire}:ns_per_delta"
    return (Row("decode " + wire, decoded, f"simdjson_parse_{wire}:ns_per_delta", "ns", "2"),
            Row("  and lookup", decoded, walked, "ns"),
            Row("wire " + wire, f"wire_{wire}:ns_per_delta", walked, "ns"))


PARTS = (
    Part("agent", (Row("run", "runs_without_pauses:us_per_run", 5.0, "us", "1.4"),
                   Row("construct", "construct_an_agent", 0.3, "us", "1", 1e3),
                   Row("delta", "one_delta_of_many:ns_per_delta", 300.0, "ns", "1"))),
    Part("gate", (Row("policy", "runs_with_a_policy:us_per_run", "runs_without_a_gate:us_per_run", "us", "1.2"),
                  Row("approval", "runs_with_an_approval:us_per_run", "runs_without_a_gate:us_per_run", "us", "3"))),
    Part("memory", (Row("idle", "memory_of_sessions:idle_bytes", 500.0, "bytes", "1"),
                    Row("session", "memory_of_sessions:session_bytes", 1700.0, "bytes", "1")), repetitions=1),
    Part("sub-agents", (Row("sub-agents", "many_subagents:us_per_agent", "many_plain_agents:us_per_agent", "us"),), repetitions=5),
    Part("sub-agent memory", (Row("sub-agent memory", "memory_of_subagents:running_bytes", "memory_of_plain_agents:running_bytes",
                                  "bytes", "1.2"),
                              Row("  ended", "memory_of_subagents:ended_bytes", 2500.0, "bytes", "1")), repetitions=1),
    *(Part(wire, wire_rows(wire)) for wire in ("chat", "responses", "anthropic")),
    Part("wake", (Row("wake", "wake_chat:ns_per_delta", "bare_wake", "ns"),)),
    Part("length", (Row("long answer", "wire_long:ns_per_delta", "wire_short:ns_per_delta", "ns", "1.2"),)),
    Part("guard", (Row("prefix guard", "guard_long:ns_per_turn", "guard_short:ns_per_turn", "ns", "1.2"),), repetitions=5),
    Part("compaction", (Row("compaction check", "compaction_check_long:ns_per_call", "compaction_check_short:ns_per_call", "ns", "1.2"),
                        Row("  first of a run", "compaction_check_long:us_of_first", "plain_calls_long:us_of_first", "us", "5")),
         repetitions=5),
    Part("100 MB", (Row("compact 100 MB", "compact_100_mb", "bare_digest_of_100_mb", "ms", "6", 1e6),), repetitions=5),
    Part("100 MB memory", (Row("  memory", "memory_of_100_mb:peak_bytes", 100e6, "bytes", "1"),), repetitions=1),
    Part("traced", (Row("traced run", "runs_traced:us_per_run", "runs_untraced:us_per_run", "us", "2.2"),
                    Row("  dead end", "runs_with_a_dead_collector:us_per_run", "runs_untraced:us_per_run", "us", "2.2"))),
    Part("traced memory", (Row("traced memory", "memory_of_traced_runs:growth_bytes", 65536.0, "bytes", "1"),), repetitions=1),
    Part("spans", (Row("span sink", "spans_to_nothing:us_per_span", 0.1, "us", "1"),
                   Row("span files", "spans_to_files:us_per_span", "bare_lines:us_per_span", "us", "6"),
                   Row("span otlp", "spans_to_collector:us_per_span", "bare_posts:us_per_span", "us", "6")), in_memory=True),
    Part("sqlite", (Row("append", "append", "bare_append", "us", "1.2", 1e3),
                    Row("append 64", "append_of_64_sessions:us_per_append", "bare_append", "us", "1.2", 1e3))),
    Part("inbox", (Row("inbox page", "inbox_page_of_many", "inbox_page_of_few", "us", "3", 1e3),
                   Row("inbox expiry", "expire_due_of_many", "expire_due_of_few", "us", "3", 1e3))),
    Part("load", (Row("load", "load", "bare_load", "ms", "2", 1e6),)),
    Part("postgres", (Row("pg append", "pg_append", "bare_pg_append", "us", "1.2", 1e3),
                      Row("pg append 64", "pg_append_of_64_sessions:us_per_append", "bare_pg_append", "us", "1.2", 1e3),
                      Row("pg load", "pg_load", "bare_pg_load_decoded", "ms", "1.2", 1e6),
                      Row("  statements", "pg_load", "bare_pg_load", "ms", "-", 1e6),
                      Row("  decoding", "decode_payloads", "bare_pg_load", "ms", "-", 1e6),
                      Row("pg claim", "pg_claim", "bare_pg_claim", "us", "1.2", 1e3)), repetitions=5, program="cubepi_server_bench"),
    Part("mysql", (Row("my append", "my_append", "bare_my_append", "us", "1.2", 1e3),
                   Row("my append 64", "my_append_of_64_sessions:us_per_append", "bare_my_append", "us", "1.2", 1e3),
                   Row("my load", "my_load", "bare_my_load", "ms", "-", 1e6),
                   Row("  decoding", "decode_payloads", "bare_my_load", "ms", "-", 1e6),
                   Row("my claim", "my_claim", "bare_my_claim", "us", "1.2", 1e3)), repetitions=5, program="cubepi_server_bench"),
    Part("servers large", (Row("large load", "large_load_of_many", "large_load_of_few", "us", "3", 1e3),
                           Row("large listing", "large_listing_of_many:us_per_thread", "large_listing_of_few:us_per_thread", "us", "3"),
                           Row("large find", "large_find_of_many", "large_find_of_few", "us", "3", 1e3),
                           Row("large page", "large_page_of_many", "large_page_of_few", "us", "3", 1e3),
                           Row("large retention", "large_retention_of_many", "large_retention_of_few", "us", "3", 1e3)),
         repetitions=3, program="cubepi_server_bench"),
    Part("tape", (Row("tape append", "tape_append", "bare_tape_append", "us", "-", 1e3),
                  Row("  durable", "durable_tape_append", "bare_durable_append", "us", "1.2", 1e3),
                  Row("tape turn", "tape_turn", "bare_tape_turn", "us", "-", 1e3))),
    Part("suspended", (Row("tape page", "tape_inbox_page_of_many", "tape_inbox_page_of_few", "us", "15", 1e3),
                       Row("tape expiry", "tape_expire_due_of_many", "tape_expire_due_of_few", "us", "15", 1e3))),
    Part("gigabyte", (Row("tape tail", "tape_open_gigabyte_tail", "bare_tape_tail", "us", "-", 1e3),)),
    Part("pipeline", (Row("turn", "turn_of_three_plugins", 3.0, "us", "1", 1e3),
                      Row("  streamed", "streamed_turn_of_three_plugins", 3.0, "us", "1", 1e3))),
    Part("sessions", (Row("idle turn", "idle_pipeline_sessions:bytes_per_session", 100.0, "bytes", "1"),
                      Row("idle gateway", "idle_gateway_sessions:bytes_per_session", 1000.0, "bytes", "1")), repetitions=1,
         in_memory=True),
    Part("gateway", (Row("gateway turn", "gateway_turns", "bare_deliveries", "us", "6", 1e6),
                     Row("  one thread", "gateway_turns_on_one_thread", "bare_deliveries", "us", "12", 1e6),
                     Row("  two threads", "gateway_turns_on_two_threads", "bare_deliveries", "us", "12", 1e6),
                     Row("  unrecorded", "gateway_turns_unrecorded", 5.0, "us", "1", 1e6),
                     Row("gateway delay", "lone_message", 100.0, "us", "1", 1e3)), in_memory=True),
    Part("http", (Row("http delta", "http_deltas:ns_per_delta", "bare_http_deltas:ns_per_delta", "ns", "2"),), repetitions=5),
    Part("http memory", (Row("http stream", "memory_of_http_streams:bytes_per_stream", 14_000.0, "bytes", "1"),
                         Row("console login", "memory_of_console_sessions:bytes_per_session", 6_000.0, "bytes", "1")), repetitions=1),
)
MEMORY = "/dev/shm"
TIMES = ("ns", "us", "ms")


def best_of(rows):
    """The fastest repetition of each benchmark, with its counters, by name."""
    best = {}
    for row in rows:
        if row.get("run_type") == "aggregate":
            continue
        name = row["run_name"].split("/")[0]
        unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[row["time_unit"]]
        time_ns = (row["real_time"] if "real_time" in row["name"] else row["cpu_time"]) * unit
        if name not in best or time_ns < best[name]["ns"]:
            best[name] = {**{k: v for k, v in row.items() if isinstance(v, (int, float))}, "ns": time_ns}
    return best


def benchmarks_of(part):
    """The benchmarks that a part needs; with the yardstick for a time whose floor is a number."""
    names = []
    for row in part.rows:
        names += [value.split(":")[0] for value in (row.ours, row.floor) if isinstance(value, str)]
        if not isinstance(row.floor, str) and row.unit in TIMES:
            names.append("yardstick")
    return sorted(set(names))


def value_of(best, what, divisor):
    """Returns a number of the budget or a counter unchanged, and the time of a benchmark in the row's unit."""
    if not isinstance(what, str):
        return what
    name, _, counter = what.partition(":")
    return best[name][counter] if counter else best[name]["ns"] / divisor


def numbers(row, best):
    """Returns ours, the floor, and their ratio, corrected by the yardstick to that of an idle machine."""
    ours, floor = value_of(best, row.ours, row.divisor), value_of(best, row.floor, row.divisor)
    if isinstance(row.floor, str) or row.unit not in TIMES:
        return ours, floor, None
    return ours, floor, ours / floor * YARDSTICK_NS / best["yardstick"]["ns"]


def line(name, ours, floor, unit, budget, at_rest=None):
    rested = "" if at_rest is None else f"{at_rest:.2f}"
    print(f"{name:<18} {ours:>12.2f} {floor:>12.2f} {unit:<6} {ours / floor:>8.2f} {rested:>8} {budget:>8}", flush=True)


def program_of(binary, part):
    return os.path.join(os.path.dirname(binary), part.program) if part.program else binary


def is_built(binary, part):
    """False if the program was not built, or was built without the library of the part."""
    program = program_of(binary, part)
    if not os.path.exists(program):
        return False
    if not part.program:
        return True
    listed = subprocess.run([program, "--benchmark_list_tests=true"], check=True, capture_output=True, text=True).stdout
    return part.rows[0].ours.split(":")[0] in {name.split("/")[0] for name in listed.splitlines()}


def measured(binary, part):
    names = "|".join(benchmarks_of(part))
    environment = {**os.environ, "TMPDIR": MEMORY} if part.in_memory and os.path.isdir(MEMORY) else None
    text = subprocess.run([program_of(binary, part), f"--benchmark_filter=^({names})(/iterations:[0-9]+)?(/real_time)?$", "--benchmark_format=json",
                           f"--benchmark_repetitions={part.repetitions}", f"--benchmark_min_time={part.seconds}",
                           "--benchmark_enable_random_interleaving=true"],
                          check=True, capture_output=True, text=True, env=environment).stdout
    rows = json.loads(text)["benchmarks"]
    for row in rows:
        if row.get("error_occurred"):
            raise SystemExit(f"bench: {row['name']}: {row['error_message']}")
    return best_of(rows)


def many_streams(binary):
    """1,000 streams at once: agents compared with a minimal reader."""
    seen = json.loads(subprocess.run([binary], check=True, capture_output=True, text=True).stdout)
    flood, bare = seen["agents_flood"], seen["bare_flood"]
    line("streams cpu", flood["cpu_ns_per_event"] / 1e3, bare["cpu_ns_per_event"] / 1e3, "us/ev", "-")
    line("streams p99", seen["agents_paced"]["p99_us"] / 1e3, seen["bare_paced"]["p99_us"] / 1e3, "ms", "-")
    return (f"1,000 streams on one thread: {flood['events_per_second']:.0f} events a second "
            f"(bare {bare['events_per_second']:.0f}); at 20,000 a second the delay from the server's write to the listener "
            f"is {seen['agents_paced']['p50_us'] / 1e3:.2f} ms in the middle; "
            f"{seen['agents_paced']['bytes_per_stream'] / 1024:.1f} KiB of heap a stream")


def starts(binary, ours, floor):
    """Rows of `--version`, compared with curl's."""
    text = subprocess.run([binary, ours, floor], check=True, capture_output=True, text=True).stdout
    mine, others = json.loads(text)
    line("start cpu", mine["cpu_ms"], others["cpu_ms"], "ms", "1")
    line("start memory", mine["peak_mb"], others["peak_mb"], "MB", "1")


def trace_view(cubepi):
    """`cubepi trace view` of a trace of 100,000 spans, compared with Python's parser reading its lines."""
    count = 100_000
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as directory:
        path = os.path.join(directory, "trace.jsonl")
        with open(path, "w", encoding="utf-8") as out:
            for i in range(count):
                # A root, turns of the root, and calls of the turns.
                parent = None if i == 0 else 0 if i % 10 == 1 else (i - 1) // 10 * 10 + 1
                out.write(json.dumps(trace_span(i, parent)) + "\n")

        def fastest(command):
            def once():
                begin = time.monotonic()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                return time.monotonic() - begin
            return min(once() for _ in range(3)) * 1e3

        read = "import json, sys\nfor line in open(sys.argv[1], encoding='utf-8'): json.loads(line)"
        line("trace view", fastest([cubepi, "trace", "view", path]), fastest([sys.executable, "-c", read, path]), "ms", "1.5")


def console_frames(cubepi):
    """Rows of the console's page in a headless Chromium: the time of a frame while an answer of 20,000 deltas arrives, and idle."""
    check = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "check-console")
    done = subprocess.run([check, "--frames", cubepi], capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        print(f"{'console frame':<18} not measured: {reason}", flush=True)
        return None
    rates = json.loads(done.stdout.splitlines()[-1])
    for name, key, budget in (("console frame", "answer", "1.5"), ("  one paragraph", "paragraph", "2")):
        line(name, 1e3 / rates[key]["streaming"], 1e3 / rates[key]["idle"], "ms", budget)
    answer, paragraph = rates["answer"], rates["paragraph"]
    return (f"frames per second of the console's page: {answer['streaming']:.0f} of {answer['idle']:.0f} while an answer of 20,000 deltas "
            f"arrives, {paragraph['streaming']:.0f} of {paragraph['idle']:.0f} if it is one paragraph")


def trace_span(number, parent):
    """One line of a trace file, as the JSONL exporter writes it."""
    start = f"2026-01-01T00:{number // 6000 % 60:02}:{number // 100 % 60:02}.{number % 100:02}0000Z"
    context = {"trace_id": "0x" + "1" * 32, "trace_state": "[]"}
    name = "invoke_agent" if parent is None else "cubepi.turn" if number % 10 == 1 else "chat m"
    attributes = {"gen_ai.operation.name": name.split()[0], "cubepi.run_id": "run-1", "gen_ai.request.model": "m",
                  "gen_ai.usage.input_tokens": 1200, "gen_ai.usage.output_tokens": 80}
    return {"name": name, "context": {**context, "span_id": f"0x{number + 1:016x}"}, "kind": "SpanKind.INTERNAL",
            "parent_id": None if parent is None else f"0x{parent + 1:016x}", "start_time": start, "end_time": start,
            "status": {"status_code": "UNSET"}, "attributes": attributes, "events": [], "links": [],
            "resource": {"attributes": {"service.name": "bench"}, "schema_url": ""}}


def counted(command):
    """The number of instructions of a process, counted by callgrind."""
    text = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
                          check=True, capture_output=True, text=True).stderr
    total = [line for line in text.splitlines() if "refs" in line][-1]
    return int(total.split(":")[-1].replace(",", ""))


def instructions(bench, cubepi):
    once, often = (counted([bench, f"--benchmark_filter=^runs_without_pauses/iterations:{iterations}$"])
                   for iterations in (1, 11))
    print(f"instructions of one '2+1' run, the agent's construction included: {(often - once) // 1000}", flush=True)
    curl = shutil.which("curl")
    if curl:
        line("start count", counted([cubepi, "--version"]) / 1e6, counted([curl, "--version"]) / 1e6, "M", "1")


class Clock:
    """The duration of each part."""

    def __init__(self):
        self.begin = self.last = time.monotonic()
        self.parts = []

    def lap(self, name):
        now = time.monotonic()
        self.parts.append((now - self.last, name))
        self.last = now

    def text(self):
        longest = ", ".join(f"{name} {seconds:.0f}" for seconds, name in sorted(self.parts, reverse=True)[:5])
        return f"{self.last - self.begin:.0f} s in all; the longest parts: {longest}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("cubepi")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--only", action="append", metavar="PART")
    arguments = parser.parse_args()

    def wanted(name):
        return not arguments.only or name in arguments.only

    clock = Clock()
    seen = {}
    notes = []
    print(f"{'what':<18} {'ours':>12} {'floor':>12} {'unit':<6} {'ratio':>8} {'at rest':>8} {'budget':>8}", flush=True)
    for part in PARTS:
        if not wanted(part.name) or not is_built(arguments.bench, part):
            continue
        best = measured(arguments.bench, part)
        for row in part.rows:
            ours, floor, at_rest = numbers(row, best)
            line(row.name, ours, floor, row.unit, row.budget, at_rest)
        seen.update(best)
        clock.lap(part.name)
    if wanted("streams"):
        notes.append(many_streams(arguments.bench.replace("cubepi_bench", "cubepi_many_streams")))
        clock.lap("streams")
    if wanted("console frame"):
        notes.append(console_frames(arguments.cubepi))
        clock.lap("console frame")
    if wanted("trace view"):
        trace_view(arguments.cubepi)
        clock.lap("trace view")
    curl = shutil.which("curl")
    if curl and wanted("start"):
        starts(arguments.bench.replace("cubepi_bench", "cubepi_starts"), arguments.cubepi, curl)
        clock.lap("start")
    if "yardstick" in seen:
        notes.append(f"the yardstick: {seen['yardstick']['ns']:.0f} ns, at rest {YARDSTICK_NS:.0f}")
    allocations = [f"{best['allocations_per_delta']:.3f} {where}" for name, where in
                   (("one_delta_of_many", "in process"), ("wire_chat", "from the wire of chat"),
                    ("wire_responses", "of responses"), ("wire_anthropic", "of anthropic")) if (best := seen.get(name))]
    if allocations:
        notes.append("allocations per delta: " + ", ".join(allocations))
    print(*filter(None, notes), sep="\n", flush=True)
    if arguments.instructions:
        instructions(arguments.bench, arguments.cubepi)
        clock.lap("instructions")
    print(clock.text())


if __name__ == "__main__":
    main()
