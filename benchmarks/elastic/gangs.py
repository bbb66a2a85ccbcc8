#!/usr/bin/env python3
"""Gangs that grow and shrink against gangs of all or none, on counts of machines that could be had: cost over that of the work on demand.
Sixteen machines, 48 h of work, linear speed-up, spot at 1/3.14, 20 windows a zone; every rule sees every count.

The rigid gang is `gpuplan simulate` with the default policy. An elastic one takes on-demand machines for what is missing at an even pace of progress.
*Naive* takes and keeps all spot machines there are. With *hysteresis* it takes more only if they have been there for half an hour, and the work that they
are expected to do pays twice for what the gang loses by taking them. A machine that comes starts for twelve minutes while the others go on; then, and
when one is lost, all stand still.

usage: gangs.py GPUPLAN COUNTS.jsonl
"""

import json
import math
import subprocess
import sys

MACHINES, WORK, TICK, START = 16, 48.0, 1 / 6, 0.2
SPOT = 1 / 3.14
WINDOWS = 20
# Hours that machines go on which have been there for half an hour (docs/risk.md: they leave at about half a time an hour).
LASTS = 2.0
# Minutes that all stand still when one is lost, and when one has come: what torchrun alone takes (resize.py), and with loading and work done again.
RESIZES = [(0.0, 0.0), (0.8, 0.15), (2.0, 1.0), (4.0, 4.0), (7.8, 3.0), (10.0, 10.0)]


def counts(line):
    trace = json.loads(line)
    return trace["source"], [count or 0 for count, ticks in trace["rle"] for _ in range(ticks)]


def starts(ticks, deadline):
    room = ticks - int(deadline / TICK) - 20
    return [room * window // WINDOWS for window in range(WINDOWS)]


def rigid(gpuplan, file, traces, deadline):
    cases = [
        {
            "id": f"{source} {start}", "trace": source, "start_tick": start, "nodes": MACHINES, "work_hours": WORK,
            "deadline_hours": deadline, "changeover_hours": START, "worst_changeover_hours": START,
            "on_demand_usd_per_hour": "1", "spot_usd_per_hour": f"{SPOT:.6f}",
        }
        for source, trace in traces
        for start in starts(len(trace), deadline)
    ]
    command = [gpuplan, "simulate", "--traces", file, "--cases", "-"]
    said = subprocess.run(command, input="\n".join(map(json.dumps, cases)), capture_output=True, text=True, check=True).stdout
    answers = [json.loads(line) for line in said.splitlines()]
    assert len(answers) == len(cases) and all(answer["met_deadline"] for answer in answers), said[:300]
    return [float(answer["cost_usd"]) / WORK for answer in answers]


def elastic(there, start, deadline, resize, hysteresis):
    lost, came = (minutes / 60 for minutes in resize)
    # Hours of start left, of each machine.
    spot, on_demand = [], []
    left, paid, elapsed, tick, is_net = WORK * MACHINES, 0.0, 0.0, start, False
    while left > 1e-9:
        now, stands = there[tick], 0.0
        if len(spot) > now:
            # Those that still start go first.
            spot, stands = sorted(spot)[:now], lost
        running = sum(machine <= 0 for machine in spot + on_demand)
        # After a tick that does nothing, as many machines on demand, started then, end the work in time.
        is_net = is_net or elapsed + TICK + START + lost + came + left / MACHINES > deadline - TICK
        if is_net:
            wanted, more = MACHINES, 0
            if sum(machine <= 0 for machine in on_demand) == MACHINES:
                spot = []
        else:
            steady = min(there[max(start, tick - 3) : tick + 1]) if hysteresis else now
            more = max(0, min(steady, MACHINES) - len(spot))
            if hysteresis and more * LASTS < 2 * came * running:
                more = 0
            pace = left / (deadline - elapsed - 2 * (START + lost + came))
            wanted = max(0, min(MACHINES, math.ceil(pace)) - len(spot) - more)
        spot += [START] * more
        if wanted < len(on_demand) and (not hysteresis or wanted * 2 <= len(on_demand)):
            on_demand, stands = sorted(on_demand)[:wanted], max(stands, came)
        on_demand += [START] * (wanted - len(on_demand))
        machines = spot + on_demand
        if running and any(0 < machine <= TICK for machine in machines):
            stands = max(stands, came)
        left -= sum(max(0.0, TICK - max(machine, 0) - stands) for machine in machines)
        paid += TICK * (len(spot) * SPOT + len(on_demand))
        spot, on_demand = ([machine - TICK for machine in kind] for kind in (spot, on_demand))
        elapsed, tick = elapsed + TICK, tick + 1
    return paid / (WORK * MACHINES), elapsed <= deadline + 1e-9


def mean(values):
    return sum(values) / len(values)


def main():
    gpuplan, file = sys.argv[1:3]
    traces = [counts(line) for line in open(file) if line.strip()]
    for deadline in (52.0, 60.0, 70.0):
        whole = mean(rigid(gpuplan, file, traces, deadline))
        print(f"48 h in {deadline:.0f} h: rigid {whole:.3f}")
        for resize in RESIZES:
            row = []
            for hysteresis in (False, True):
                of = [elastic(trace, start, deadline, resize, hysteresis) for _, trace in traces for start in starts(len(trace), deadline)]
                cost, late = mean([cost for cost, _ in of]), sum(not met for _, met in of)
                row.append(f"{cost:.3f} ({100 * (1 - cost / whole):+.1f} % under rigid, {late} late)")
            print(f"  lost {resize[0]:g} min, come {resize[1]:g} min: naive {row[0]}, hysteresis {row[1]}", flush=True)


main()
