#!/usr/bin/env python3
"""Runs the benchmark binary and prints ours against the floor, row by row.

usage: report.py BENCH_BINARY CUBEPI_BINARY [--instructions]
"""

import json
import shutil
import subprocess
import sys


def measured(binary):
    text = subprocess.run([binary, "--benchmark_format=json", "--benchmark_repetitions=5",
                           "--benchmark_min_time=0.2"],
                          check=True, capture_output=True, text=True).stdout
    best = {}
    for row in json.loads(text)["benchmarks"]:
        if row.get("run_type") == "aggregate":
            continue
        name = row["run_name"].split("/")[0]
        unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[row["time_unit"]]
        time_ns = (row["real_time"] if "real_time" in row["name"] else row["cpu_time"]) * unit
        if name not in best or time_ns < best[name]["ns"]:
            best[name] = {"ns": time_ns, **{k: v for k, v in row.items() if isinstance(v, (int, float))}}
    return best


def many_streams(binary):
    """1,000 streams at once: agents against the least that a reader can do."""
    seen = json.loads(subprocess.run([binary], check=True, capture_output=True, text=True).stdout)
    flood, bare = seen["agents_flood"], seen["bare_flood"]
    row("streams cpu", flood["cpu_ns_per_event"] / 1e3, bare["cpu_ns_per_event"] / 1e3, "us/ev", "-")
    row("streams p99", seen["agents_paced"]["p99_us"] / 1e3, seen["bare_paced"]["p99_us"] / 1e3, "ms", "-")
    print(f"1,000 streams on one thread: {flood['events_per_second']:.0f} events a second "
          f"(bare {bare['events_per_second']:.0f}); at 20,000 a second the delay from the server's write to the listener "
          f"is {seen['agents_paced']['p50_us'] / 1e3:.2f} ms in the middle; "
          f"{seen['agents_paced']['bytes_per_stream'] / 1024:.1f} KiB of heap a stream")


def starts(binary, ours, floor):
    """Rows of `--version` against curl's."""
    text = subprocess.run([binary, ours, floor], check=True, capture_output=True, text=True).stdout
    mine, others = json.loads(text)
    row("start cpu", mine["cpu_ms"], others["cpu_ms"], "ms", "1")
    row("start memory", mine["peak_mb"], others["peak_mb"], "MB", "1")


def row(name, ours, floor, unit, budget):
    print(f"{name:<18} {ours:>12.2f} {floor:>12.2f} {unit:<6} {ours / floor:>8.2f} {budget:>8}")


def counted(command):
    """Instructions of a process, by callgrind."""
    text = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
                          check=True, capture_output=True, text=True).stderr
    total = [line for line in text.splitlines() if "refs" in line][-1]
    return int(total.split(":")[-1].replace(",", ""))


def instructions(bench, cubepi):
    once, often = (counted([bench, f"--benchmark_filter=^runs_without_pauses/iterations:{iterations}$"])
                   for iterations in (1, 11))
    print(f"instructions of one '2+1' run, the agent's construction included: {(often - once) // 1000}")
    curl = shutil.which("curl")
    if curl:
        row("start count", counted([cubepi, "--version"]) / 1e6, counted([curl, "--version"]) / 1e6, "M", "1")


def main():
    bench, cubepi = sys.argv[1], sys.argv[2]
    best = measured(bench)
    print(f"{'what':<18} {'ours':>12} {'floor':>12} {'unit':<6} {'ratio':>8} {'budget':>8}")
    row("run", best["runs_without_pauses"]["us_per_run"], 5.0, "us", "1")
    row("construct", best["construct_an_agent"]["ns"] / 1e3, 0.3, "us", "1")
    row("idle", best["memory_of_sessions"]["idle_bytes"], 500, "bytes", "1")
    row("session", best["memory_of_sessions"]["session_bytes"], 1500, "bytes", "1")
    row("delta", best["one_delta_of_many"]["ns_per_delta"], 300, "ns", "1")
    for wire in ("chat", "responses", "anthropic"):
        floor = best["simdjson_" + wire]["ns_per_delta"]
        parse = best["simdjson_parse_" + wire]["ns_per_delta"]
        row("decode " + wire, best["decode_" + wire]["ns_per_delta"], parse, "ns", "2")
        row("  and lookup", best["decode_" + wire]["ns_per_delta"], floor, "ns", "-")
        row("wire " + wire, best["wire_" + wire]["ns_per_delta"], floor, "ns", "-")
    row("wake", best["wake_chat"]["ns_per_delta"], best["bare_wake"]["ns"], "ns", "-")
    row("long answer", best["wire_long"]["ns_per_delta"], best["wire_short"]["ns_per_delta"], "ns", "1.2")
    row("prefix guard", best["guard_long"]["ns_per_turn"], best["guard_short"]["ns_per_turn"], "ns", "1.2")
    row("append", best["append"]["ns"] / 1e3, best["bare_append"]["ns"] / 1e3, "us", "1.2")
    row("append 64", best["append_of_64_sessions"]["ns"] / 64e3, best["bare_append"]["ns"] / 1e3, "us", "1.2")
    row("load", best["load"]["ns"] / 1e6, best["bare_load"]["ns"] / 1e6, "ms", "2")
    row("tape append", best["tape_append"]["ns"] / 1e3, best["bare_tape_append"]["ns"] / 1e3, "us", "-")
    row("  durable", best["durable_tape_append"]["ns"] / 1e3, best["bare_durable_append"]["ns"] / 1e3, "us", "1.2")
    row("tape turn", best["tape_turn"]["ns"] / 1e3, best["bare_tape_turn"]["ns"] / 1e3, "us", "-")
    row("tape tail", best["tape_open_gigabyte_tail"]["ns"] / 1e3, best["bare_tape_tail"]["ns"] / 1e3, "us", "-")
    row("turn", best["turn_of_three_plugins"]["ns"] / 1e3, 2.0, "us", "1")
    row("  streamed", best["streamed_turn_of_three_plugins"]["ns"] / 1e3, 2.0, "us", "1")
    row("idle turn", best["idle_pipeline_sessions"]["bytes_per_session"], 100.0, "bytes", "1")
    row("idle gateway", best["idle_gateway_sessions"]["bytes_per_session"], 1000.0, "bytes", "1")
    many_streams(bench.replace("cubepi_bench", "cubepi_many_streams"))
    curl = shutil.which("curl")
    if curl:
        starts(bench.replace("cubepi_bench", "cubepi_starts"), cubepi, curl)
    print(f"allocations per delta: {best['one_delta_of_many']['allocations_per_delta']:.3f} in process, "
          f"{best['wire_chat']['allocations_per_delta']:.3f} from the wire of chat, "
          f"{best['wire_responses']['allocations_per_delta']:.3f} of responses, "
          f"{best['wire_anthropic']['allocations_per_delta']:.3f} of anthropic")
    if "--instructions" in sys.argv:
        instructions(bench, cubepi)


if __name__ == "__main__":
    main()
