"""What 48 h of work cost on all pools of a file of traces at once, at one price, over on-demand: `equal_pools.py GPUPLAN TRACES [POLICY]`.

Thirty windows over the whole traces, changeover 0.2 h, moves at no cost; full sight, and as a controller sees. Spot alone is .318.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

WORK, DEADLINES, WINDOWS = 48, (52, 60, 70), 30
ON_DEMAND, SPOT = "3.06", "0.9731"

gpuplan, traces = sys.argv[1:3]
policy = sys.argv[3] if len(sys.argv) > 3 else "default"
pools = [json.loads(line) for line in pathlib.Path(traces).read_text().splitlines() if line.strip()]
pools = [pool for pool in pools if pool["gap_seconds"] == 600]
ticks = min(pool["ticks"] for pool in pools)


def mean_cost(deadline, probe_minutes):
    room = ticks - deadline * 6
    cases = [
        {"id": window, "start_tick": room * window // (WINDOWS - 1), "work_hours": WORK, "deadline_hours": deadline, "changeover_hours": 0.2,
         "on_demand_usd_per_hour": ON_DEMAND, "spot_usd_per_hour": SPOT, "probe_minutes": probe_minutes, "policy": policy,
         "pools": [{"trace": pool["source"], "spot_usd_per_hour": SPOT} for pool in pools]}
        for window in range(WINDOWS)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(map(json.dumps, cases)) + "\n")
        file.flush()
        command = [gpuplan, "simulate", "--traces", traces, "--cases", file.name]
        answers = [json.loads(line) for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()]
    missed = sum(not answer["met_deadline"] for answer in answers)
    return sum(float(answer["cost_usd"]) for answer in answers) / len(answers) / (WORK * float(ON_DEMAND)), missed


for deadline in DEADLINES:
    (full, missed), (asked, missed_too) = mean_cost(deadline, 0), mean_cost(deadline, 10)
    print(f"{len(pools)} pools, {deadline} h: full sight {full:.3f}, by attempts {asked:.3f}, {missed + missed_too} missed")
