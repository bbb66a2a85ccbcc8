#!/usr/bin/env python3
"""A data-parallel trainer that goes on with however many ranks there are: the batch is kept by accumulation, and every SAVE_EVERY steps
the first rank saves. Each finished step is a line of the log: moment, step, ranks, loss. `resize.py` runs it.

usage: trainer.py FOLDER STEPS
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])
# Of a step, whatever the number of ranks; 2, 3 and 4 divide it.
SAMPLES = 24
# So slow is a sample here at least: a step takes longer on fewer machines, as on GPUs.
SECONDS_PER_SAMPLE = 0.04
SAVE_EVERY = 5
WIDTH = 1024


def batch(step, sample):
    made = torch.Generator().manual_seed(step * SAMPLES + sample)
    return torch.randn(8, WIDTH, generator=made)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    # Ranks meet under the number of restarts that their agent counts, and a machine that comes later has counted fewer (torch 2.5.1).
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "0"
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(8)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    saved, step = os.path.join(FOLDER, "checkpoint.pt"), 0
    if os.path.exists(saved):
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    while step < STEPS:
        loss = torch.zeros(1)
        for sample in range(rank, SAMPLES, ranks):
            begun = time.monotonic()
            part = (model(batch(step, sample)) - 1).pow(2).mean() / SAMPLES
            part.backward()
            loss += part.detach()
            time.sleep(max(0.0, SECONDS_PER_SAMPLE - (time.monotonic() - begun)))
        gradients = torch.cat([weights.grad.flatten() for weights in model.parameters()] + [loss])
        dist.all_reduce(gradients)
        at = 0
        for weights in model.parameters():
            weights.grad.copy_(gradients[at : at + weights.numel()].view_as(weights))
            at += weights.numel()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if rank == 0:
            with open(os.path.join(FOLDER, "steps.jsonl"), "a") as log:
                log.write(json.dumps([time.time(), step, ranks, gradients[-1].item()]) + "\n")
            if step % SAVE_EVERY == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, saved + ".new")
                os.replace(saved + ".new", saved)
    dist.destroy_process_group()


main()
