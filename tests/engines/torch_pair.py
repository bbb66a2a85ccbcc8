#!/usr/bin/env python3
"""A trainer under torchrun: each step a sum over all ranks, every ten steps a checkpoint, on SIGTERM one more and the end.

usage: torch_pair.py STEPS SECONDS_PER_STEP
"""

import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

STEPS, PACE = int(sys.argv[1]), float(sys.argv[2])
FOLDER = os.environ.get("GPUPLAN_CKPT_DIR", "checkpoints")
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))


def save(step, value, rank):
    place = os.path.join(FOLDER, f"step-{step:06d}")
    aside = os.path.join(FOLDER, f".tmp-{step}-{rank}")
    os.makedirs(aside, exist_ok=True)
    torch.save({"step": step, "value": value}, os.path.join(aside, f"shard-{rank}.pt"))
    open(os.path.join(aside, ".complete"), "w").close()
    if not os.path.exists(place):
        os.rename(aside, place)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    step, value, resume = 0, torch.tensor(1.0 + rank, dtype=torch.float64), os.environ.get("GPUPLAN_RESUME_FROM")
    if resume:
        state = torch.load(os.path.join(resume, f"shard-{rank}.pt"), weights_only=True)
        step, value = state["step"], state["value"]
    print(f"rank {rank} of {dist.get_world_size()}: from step {step}", flush=True)
    while step < STEPS:
        total = torch.stack([value, torch.tensor(float(bool(stop)), dtype=torch.float64)])
        dist.all_reduce(total)
        if total[1] > 0:
            save(step, value, rank)
            print(f"rank {rank}: stopped at step {step}", flush=True)
            sys.exit(1)
        step, value = step + 1, value * 0.9 + total[0] * 0.01 + (rank + 1) * 0.001
        time.sleep(PACE)
        if step % 10 == 0:
            save(step, value, rank)
    with open("result.json", "w") as file:
        json.dump([step, value.item().hex()], file)
    dist.destroy_process_group()


main()
