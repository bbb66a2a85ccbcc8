#!/usr/bin/env python3
"""The default policy beside SkyNomad's (NSDI'27), on counts of H100 machines that could be had in several zones of Google Cloud.

SkyNomad's rule is written anew from the authors' code (andylizf/skynomad-artifact, Apache-2.0, `unified_cost_model.py` with its defaults): an hour of progress is worth
1.2 times what the rest of the job is expected to cost an hour; a zone's remaining life comes from the Nelson-Aalen curve of what ran or was probed there, scaled up in
bursts of losses, two hours at most; what gains most an hour is started, and what runs is left only for a gain above a margin. A probe costs a minute of spot.

Each job needs one machine. Prices are those of the zone's a3-highgpu-8g a card; of traces without a price, those of p3.2xlarge in "Can't Be Late" (NSDI'24). A start
takes twelve minutes, and a move to another zone costs so many dollars.

usage: compare.py GPUPLAN COUNTS.jsonl DOLLARS_A_MOVE [WINDOWS [ZONE,ZONE...]]
"""

import json
import math
import subprocess
import sys

WORK, TICK, START = 48.0, 1 / 6, 0.2
EGRESS = float(sys.argv[3])
STRETCHES = (1.05, 1.1, 1.2, 1.5, 3.0)
WINDOWS = int(sys.argv[4]) if len(sys.argv) > 4 else 12
# Ends of the names of the traces to use.
ZONES = tuple(sys.argv[5].split(",")) if len(sys.argv) > 5 else ("",)
# Dollars an hour where a trace has no price.
SPOT, ON_DEMAND = 0.9731, 3.06
# Of the authors' defaults: hours of a prediction at most, ticks between probes, hours that count as lately, the window of progress.
LONGEST, PROBE_TICKS, LATELY, PACE = 2.0, 6, 12.0, 10.0
# The margin for leaving what runs: dollars, and a share of the worth of an hour.
MARGIN, MARGIN_OF_WORTH = 0.51, 0.05


class Zone:
    """What is known of a zone: runs that have ended, with whether they were lost, and the one that goes on (a probe counts as a run that nobody ends)."""

    def __init__(self, spot, on_demand):
        self.spot, self.on_demand = spot, on_demand
        self.ended, self.since, self.is_probe = [], None, False
        self.risks, self.losses, self.burst = [], 0, 1.0
        self.next_probe = 0

    def begin(self, now, is_probe):
        self.since, self.is_probe = now, is_probe

    def end(self, now, lost):
        if self.since is not None:
            self.ended.append((self.since, now, lost))
        self.losses += lost
        self.since = None

    def age(self, now):
        return 0.0 if self.since is None else now - self.since

    def knots(self):
        lengths = [end - begin for begin, end, _ in self.ended]
        at = sorted({end - begin for begin, end, lost in self.ended if lost})
        lost = [sum(is_lost and abs(end - begin - when) < 1e-9 for begin, end, is_lost in self.ended) for when in at]
        return [(when, many / sum(length + 1e-9 >= when for length in lengths)) for when, many in zip(at, lost)]

    def hazard(self, age):
        knots, last, total = self.knots(), 0.0, 0.0
        tail = knots[-1][1] if knots else 1e-8
        for when, step in knots:
            if when >= age:
                break
            total, last = total + step, when
        return total + max(0.0, age - last) * tail

    def remaining(self, now, left):
        knots, life, lasts, age = self.knots(), 0.0, 1.0, self.age(now)
        for when, step in knots:
            if when > age + 1e-12:
                life, lasts, age = life + lasts * (when - age), lasts * math.exp(-self.burst * step), when
        tail = knots[-1][1] if knots else 1e-8
        life += lasts * TICK / -math.expm1(-self.burst * tail)
        return min(life, LONGEST, left)

    def available(self, now):
        first = max(0.0, now - LATELY)
        runs = [(begin, end) for begin, end, _ in self.ended] + ([(self.since, now)] if self.since is not None else [])
        return min(1.0, sum(max(0.0, end - max(begin, first)) for begin, end in runs) / min(LATELY, now)) if now > 0 else 0.0

    def tick(self, now):
        """A tick has passed: the risk that was run in it, and what was lost."""
        risk = 0.0
        if self.since is not None:
            risk = max(0.0, self.hazard(self.age(now)) - self.hazard(max(0.0, self.age(now) - TICK)))
        if risk <= 0 and (self.since is not None or self.losses) and not self.knots():
            risk = 1e-8 * TICK
        if risk <= 0 and self.losses:
            risk = (self.knots()[-1][1] if self.knots() else 1e-8) * TICK
        if risk > 0 or self.losses:
            self.risks.append((risk, self.losses))
            while len(self.risks) > 1 and sum(risk for risk, _ in self.risks[1:]) >= 8:
                self.risks.pop(0)
            self.burst = max(1.0, self.densest()) if sum(risk for risk, _ in self.risks) >= 1 else 1.0
        self.losses = 0

    def densest(self):
        """Losses over risk in the latest events, of at most a risk of one: the most."""
        risk = losses = best = 0.0
        for count, (more, lost) in enumerate(reversed(self.risks)):
            risk, losses = risk + more, losses + lost
            if count == 0 and risk <= 1e-6 and losses == 0:
                continue
            if risk > 1 + 1e-9:
                return losses / risk if count == 0 else best
            best = max(best, losses / max(risk, 1e-6))
        return best


def worth(zones, now, done, deadline, progress):
    """Of an hour of progress: 1.2 times the expected cost of one."""
    left, time = WORK - done, deadline - now
    lately = progress[-round(PACE / TICK) :]
    pace = min(1.0, sum(lately) / (len(lately) * TICK)) if lately else 0.0
    on_demand = 0.0
    if now > 0 and abs(pace - 1) > 1e-6:
        meets = (pace * now - done + WORK + 2 * START - deadline) / (pace - 1)
        on_demand = 0.0 if meets >= deadline else 1.0 if meets <= 0 else min(1.0, (deadline - meets) / time)
    rate = min(zone.on_demand for zone in zones)
    ways = []
    for zone in zones:
        life = zone.remaining(now, time)
        useful = max(0.0, life - START)
        if zone.available(now) * useful > 0:
            ways.append((zone.spot * life / useful, zone.available(now) * time * useful / life))
    spot = (1 - on_demand) * left
    cost = on_demand * left * rate
    for price, hours in sorted(ways):
        cost, spot = cost + price * min(hours, spot), spot - min(hours, spot)
    return 1.2 * (cost + spot * rate) / left


def skynomad(prices, up, start, deadline):
    zones = [Zone(*price) for price in prices]
    now, done, paid, tick, last, runs, starting = 0.0, 0.0, 0.0, start, None, None, 0.0
    progress = []
    while done < WORK - 1e-6:
        if runs and runs[0] == "spot" and not up[runs[1]][tick]:
            zones[runs[1]].end(now, True)
            runs = None
        for zone in zones:
            zone.tick(now)
        value, time = worth(zones, now, done, deadline, progress), deadline - now
        origin = runs[1] if runs else last
        moving = lambda zone, hours: EGRESS / hours if origin is not None and zone != origin else 0.0
        ways = []
        for index, zone in enumerate(zones):
            life = max(zone.remaining(now, time), 1e-9)
            useful = life if runs == ("spot", index) else life - START
            if useful > 0:
                ways.append(((value * useful - zone.spot * life) / life - moving(index, life), ("spot", index)))
            move = START * value + EGRESS if origin not in (None, index) else 0.0
            ways.append((value - zone.on_demand - move, ("on-demand", index)))
        gains = dict((way, gain) for gain, way in ways)
        current = gains.get(runs, 0.0) if runs else 0.0
        margin = MARGIN + MARGIN_OF_WORTH * value
        # Whoever runs leaves only for a zone that gains more than the margin.
        better = [(gain, way) for gain, way in ways if gain >= 0 and way != runs and gain > current + (margin if runs else 0.0)]
        # The net: on-demand from now on still ends the work in time.
        whole = math.ceil((WORK - done + START) / TICK - 1e-9) * TICK
        is_last_call = whole >= math.floor(time / TICK + 1e-9) * TICK - 1e-9
        failed, chosen = set(), runs
        if is_last_call:
            if not (runs and runs[0] == "spot" and starting <= 1e-9):
                cheapest = min(range(len(zones)), key=lambda index: zones[index].on_demand)
                chosen = runs if runs and runs[0] == "on-demand" else ("on-demand", cheapest)
        else:
            for _, way in sorted(better, reverse=True):
                if way[0] == "on-demand" or up[way[1]][tick]:
                    chosen = way
                    break
                # A start takes the place of the probe, and is refused.
                zones[way[1]].end(now, False)
                zones[way[1]].losses += 1
                failed.add(way[1])
        if chosen != runs:
            if runs and runs[0] == "spot":
                zones[runs[1]].end(now, False)
            if chosen[0] == "spot":
                zones[chosen[1]].end(now, False)
                zones[chosen[1]].begin(now, False)
            starting = START
            paid += EGRESS if origin not in (None, chosen[1]) else 0.0
            runs = chosen
        for index, zone in enumerate(zones):
            if (runs and index == runs[1]) or index in failed or zone.since is not None or tick < zone.next_probe:
                continue
            zone.next_probe = tick + PROBE_TICKS
            if up[index][tick]:
                zone.begin(now, True)
                paid += zone.spot / 60
            else:
                zone.losses += 1
        step = 0.0
        if runs:
            step = min(max(0.0, TICK - starting), WORK - done)
            starting, last = max(0.0, starting - TICK), runs[1]
            paid += TICK * (zones[runs[1]].spot if runs[0] == "spot" else zones[runs[1]].on_demand)
        done, now, tick = done + step, now + TICK, tick + 1
        progress.append(step)
    return paid, now <= deadline + 1e-9


def ours(gpuplan, file, traces, deadline, starts, policy, probe_minutes):
    pools = [
        {
            "trace": trace["source"], "spot_usd_per_hour": f"{spot:.6f}", "on_demand_usd_per_hour": f"{on_demand:.6f}",
            "switch_usd": f"{EGRESS:.2f}",
        }
        for trace, (spot, on_demand), _ in traces
    ]
    # Each zone names its own rate; at the one of no zone nobody should run without a move.
    rate = max(on_demand for _, (_, on_demand), _ in traces)
    cases = [
        {
            "id": start, "pools": pools, "start_tick": start, "work_hours": WORK, "deadline_hours": deadline, "changeover_hours": START,
            "worst_changeover_hours": START, "on_demand_usd_per_hour": f"{rate:.6f}", "policy": policy, "probe_minutes": probe_minutes,
        }
        for start in starts
    ]
    command = [gpuplan, "simulate", "--traces", file, "--cases", "-"]
    said = subprocess.run(command, input="\n".join(map(json.dumps, cases)), capture_output=True, text=True, check=True).stdout
    answers = [json.loads(line) for line in said.splitlines()]
    assert len(answers) == len(cases) and all("cost_usd" in answer for answer in answers), said[:300]
    assert policy != "default" or all(answer["met_deadline"] for answer in answers)
    return [float(answer["cost_usd"]) for answer in answers]


def mean(values):
    return sum(values) / len(values)


def main():
    gpuplan, file = sys.argv[1:3]
    traces = []
    for line in filter(str.strip, open(file)):
        trace = json.loads(line)
        if trace["gap_seconds"] != 600 or not trace["source"].endswith(ZONES):
            continue
        price = (SPOT, ON_DEMAND)
        if "price" in trace:
            price = (trace["price"]["spot_usd_per_hour"] / 8, trace["price"]["on_demand_usd_per_hour"] / 8)
        traces.append((trace, price, [(count or 0) >= 1 for count, ticks in trace["rle"] for _ in range(ticks)]))
    print(f"{len(traces)} zones, {WORK:.0f} h of work, {WINDOWS} windows; mean dollars, and over the optimum")
    for stretch in STRETCHES:
        deadline = WORK * stretch
        room = min(len(up) for _, _, up in traces) - math.ceil(deadline / TICK)
        starts = [room * window // (WINDOWS - 1) for window in range(WINDOWS)]
        theirs = [skynomad([price for _, price, _ in traces], [up for _, _, up in traces], start, deadline) for start in starts]
        best = mean(ours(gpuplan, file, traces, deadline, starts, "omniscient", 0))
        rows = {
            "optimum": best,
            "SkyNomad": mean([paid for paid, _ in theirs]),
            "default by attempts": mean(ours(gpuplan, file, traces, deadline, starts, "default", 10)),
            "default, full sight": mean(ours(gpuplan, file, traces, deadline, starts, "default", 0)),
            "uniform progress by attempts": mean(ours(gpuplan, file, traces, deadline, starts, "uniform-progress", 10)),
        }
        late = sum(not met for _, met in theirs)
        print(f"{stretch} times the work ({late} of SkyNomad late): " + ", ".join(f"{name} {cost:.1f} ({cost / best:.3f})" for name, cost in rows.items()), flush=True)


main()
