"""Two tables of docs/risk.md, of jobs on each pool of a file alone, over on-demand: `spot_alone.py GPUPLAN TRACES short|long`.

`short`: 56 minutes of work in up to a week, changeover 0.35 h, price ratio 2.36, 40 windows a pool. `long`: 48 h of work on gangs, changeover 0.2 h, price
ratio 3.14, 20 windows a pool. The reserve is three changeovers, windows are spread evenly over the whole trace.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ON_DEMAND = 3.06
HOW = {"full sight": ("default", 0), "as a controller sees": ("default", 10)}
SHORT = {"work": 56 / 60, "changeover": 0.35, "spot": ON_DEMAND / 2.36, "windows": 40, "jobs": [(1, hours) for hours in (6, 12, 24, 72, 168)], "other": "greedy"}
LONG = {"work": 48, "changeover": 0.2, "spot": 0.9731, "windows": 20, "jobs": [(nodes, hours) for nodes in (1, 8, 16) for hours in (52, 60)],
        "other": "uniform-progress"}


def main():
    gpuplan, traces, which = sys.argv[1:]
    table = {"short": SHORT, "long": LONG}[which]
    pools = [json.loads(line) for line in pathlib.Path(traces).read_text().splitlines() if line.strip()]
    pools = [pool for pool in pools if pool["gap_seconds"] == 600]
    print("; ".join(f"{nodes} x {hours} h" for nodes, hours in table["jobs"]))
    for how, (policy, probe_minutes) in (HOW | {f"{table['other']}, as a controller sees": (table["other"], 10)}).items():
        figures = [figure(gpuplan, traces, pools, table, *job, policy, probe_minutes) for job in table["jobs"]]
        costs, finishes, missed = zip(*figures)
        print(f"{how}: cost {'; '.join(f'{cost:.3f}' for cost in costs)}; median finish {'; '.join(f'{hours:.1f} h' for hours in finishes)}; {sum(missed)} missed")


def figure(gpuplan, traces, pools, table, nodes, deadline, policy, probe_minutes):
    """Mean cost over that of the work on demand, median finish in hours, windows that missed the deadline."""
    cases = [
        {"id": window, "trace": pool["source"], "nodes": nodes, "start_tick": (pool["ticks"] - deadline * 6) * window // (table["windows"] - 1),
         "work_hours": table["work"], "deadline_hours": deadline, "changeover_hours": table["changeover"], "policy": policy, "probe_minutes": probe_minutes,
         "on_demand_usd_per_hour": str(ON_DEMAND), "spot_usd_per_hour": f"{table['spot']:.4f}"}
        for pool in pools
        for window in range(table["windows"])
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(map(json.dumps, cases)) + "\n")
        file.flush()
        command = [gpuplan, "simulate", "--traces", traces, "--cases", file.name]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    answers = [answer for answer in map(json.loads, lines) if "cost_usd" in answer]
    cost = statistics.mean(float(answer["cost_usd"]) for answer in answers) / (table["work"] * ON_DEMAND)
    return cost, statistics.median(answer["finish_hours"] for answer in answers), sum(not answer["met_deadline"] for answer in answers)


main()
