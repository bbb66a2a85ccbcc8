#!/usr/bin/env python3
"""A small network with dropout, AdamW, a schedule and a shuffled order, all of whose state is saved: resumed bit for bit.

At the end `result.json` has the losses in hexadecimal and a hash of the weights, and no time or path.
"""

import hashlib
import json
import os
import signal
import sys

import torch
from torch import nn

STEPS, EVERY, SAMPLES, BATCH = int(sys.argv[1]), 20, 256, 16
PACE = float(sys.argv[2])
FOLDER = os.environ.get("GPUPLAN_CKPT_DIR", "checkpoints")
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))


def save(state):
    place = os.path.join(FOLDER, f"step-{state['step']:06d}")
    aside = os.path.join(FOLDER, ".tmp")
    os.makedirs(aside, exist_ok=True)
    torch.save(state, os.path.join(aside, "state.pt"))
    open(os.path.join(aside, ".complete"), "w").close()
    if not os.path.exists(place):
        os.rename(aside, place)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    os.makedirs(FOLDER, exist_ok=True)
    inputs = torch.randn(SAMPLES, 8)
    wanted = inputs.sum(1, keepdim=True).sin()
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    step, order, losses = 0, [], []
    resume = os.environ.get("GPUPLAN_RESUME_FROM")
    if resume:
        state = torch.load(os.path.join(resume, "state.pt"), weights_only=False)
        step, order, losses = state["step"], state["order"], state["losses"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["chance"])

    def present():
        parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
        return {"step": step, "order": order, "losses": losses, "chance": torch.get_rng_state(), **parts}

    print(f"torch: from step {step}", flush=True)
    while step < STEPS and not stop:
        if len(order) < BATCH:
            order = torch.randperm(SAMPLES).tolist()
        batch, order = order[:BATCH], order[BATCH:]
        loss = nn.functional.mse_loss(model(inputs[batch]), wanted[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        step += 1
        losses.append(loss.item().hex())
        if PACE:
            signal.sigtimedwait([], PACE)
        if step % EVERY == 0:
            save(present())
    save(present())
    if step < STEPS:
        print(f"torch: interrupted at step {step}", flush=True)
        sys.exit(75)
    weights = hashlib.sha256(b"".join(part.numpy().tobytes() for part in model.state_dict().values())).hexdigest()
    with open("result.json", "w") as file:
        json.dump({"steps": step, "weights_sha256": weights, "losses": losses}, file)


main()
