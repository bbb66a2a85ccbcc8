#!/usr/bin/env python3
"""What it costs to resize a gang in place with torchrun's elastic ranges: four agents of one rank each (`--nnodes 2:4`, gloo, loopback).
One is killed, one comes, and so on: an agent that ends by SIGTERM closes the rendezvous for all (torch 2.5.1). Printed for each: for how long no
step ended beyond what a step takes, and how many steps were done again. At the end the loss is held against that of an undisturbed run.

usage: resize.py [ROUNDS] [RENDEZVOUS_CONFIGURATION]        by a Python that has torch
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from torch.distributed import TCPStore

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
CONFIGURATION = sys.argv[2] if len(sys.argv) > 2 else ""
TRAINER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer.py")
MACHINES = 4
# Steps between two events, once the ranks are as many as they should be.
CALM = 6
PATIENCE = 300


class Gang:
    # The rendezvous has its store on no machine of the gang, or the gang would end with that one.
    def __init__(self, steps, least):
        self.folder, self.steps, self.least, self.agents = tempfile.mkdtemp(prefix="resize-"), steps, least, []
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def start(self):
        configuration = [f"--rdzv-conf={CONFIGURATION}"] if CONFIGURATION else []
        command = [
            sys.executable, "-m", "torch.distributed.run", f"--nnodes={self.least}:{MACHINES}", "--nproc-per-node=1",
            "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.store.port}", "--rdzv-id=resize", *configuration,
            "--max-restarts=100", "--monitor-interval=1", "--local-addr=127.0.0.1", TRAINER, self.folder, str(self.steps),
        ]
        log = open(os.path.join(self.folder, f"agent-{time.time():.0f}-{len(self.agents)}.log"), "w")
        # Ranks meet in a store of their round: in one that all rounds share, the addresses of ranks that are gone stay (torch 2.5.1).
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"
        }
        self.agents.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True))

    # A machine goes with all that runs on it.
    def kill(self):
        agent = self.agents.pop()
        if agent.poll() is not None:
            return
        workers = subprocess.run(["pgrep", "-P", str(agent.pid)], capture_output=True, text=True).stdout.split()
        for process in [agent.pid, *map(int, workers)]:
            os.kill(process, signal.SIGKILL)
        agent.wait()

    def log(self):
        try:
            with open(os.path.join(self.folder, "steps.jsonl")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    # Until so many ranks have done so many steps in a row.
    def settle(self, ranks, after):
        until = time.time() + PATIENCE
        while time.time() < until:
            lines = [line for line in self.log() if line[0] > after]
            if len(lines) >= CALM and all(line[2] == ranks for line in lines[-CALM:]):
                return
            if any(agent.poll() for agent in self.agents):
                break
            time.sleep(0.2)
        raise SystemExit(f"no {ranks} ranks; the logs are in {self.folder}")


# Where a step ended in the old gang last, and in the new one first beyond it: seconds lost, and steps done again.
def cost(log, moment, ranks):
    before = [line for line in log if line[2] != ranks and line[0] < next(l[0] for l in log if l[0] > moment and l[2] == ranks)]
    last, after = before[-1], [line for line in log if line[2] == ranks and line[0] > moment]
    pace = statistics.median(b[0] - a[0] for a, b in zip(after, after[1:]))
    return {
        "until steps go on": after[0][0] - pace - last[0],
        "steps again": last[1] - after[0][1] + 1,
        "seconds a step": pace,
        "from the event": after[0][0] - pace - moment,
    }


def main():
    gang = Gang(10_000, 2)
    try:
        found = play(gang)
    finally:
        while gang.agents:
            gang.kill()
    for name, all_of in found.items():
        stands = sorted(of["until steps go on"] for of in all_of)
        print(f"{name}: stands still {statistics.median(stands):.0f} s at the median ({stands[0]:.0f} to {stands[-1]:.0f}, {len(stands)} times)")
    # The same steps by a gang that nothing disturbs.
    steps = min(gang.log()[-1][1], 40)
    whole = Gang(steps, MACHINES)
    for _ in range(MACHINES):
        whole.start()
    for agent in whole.agents:
        agent.wait()
    undisturbed = {line[1]: line[3] for line in whole.log()}
    worst = max(abs(line[3] / undisturbed[line[1]] - 1) for line in gang.log() if line[1] in undisturbed)
    print(f"loss of {steps} steps against an undisturbed run: {worst:.1e} off at most")


def play(gang):
    found = {}
    for _ in range(MACHINES):
        gang.start()
    gang.settle(MACHINES, 0)
    for number in range(ROUNDS):
        for name, act, ranks in [("lost", gang.kill, MACHINES - 1), ("came", gang.start, MACHINES)]:
            moment = time.time()
            act()
            gang.settle(ranks, moment)
            of = cost(gang.log(), moment, ranks)
            found.setdefault(name, []).append(of)
            print(f"round {number + 1}, one {name}: " + ", ".join(f"{key} {value:.1f}" for key, value in of.items()), flush=True)
    return found


main()
