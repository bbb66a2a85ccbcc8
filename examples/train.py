#!/usr/bin/env python3
"""A whole training run in a few seconds, with the standard library alone: for trying `gpuplan agent` and for its tests.

It keeps the contract of docs/agent.md: saves its whole state (weights, optimizer, random numbers, order of the data, losses)
into a temporary folder, flushes it, renames it to `step-N`, and resumes from $GPUPLAN_RESUME_FROM bit for bit. On SIGTERM it
saves and ends with code 75. At the end it writes `result.json`, which holds no time and no path: two runs of the same steps
have the same one, however often they were interrupted.

    gpuplan agent --store file://$PWD/store -- examples/train.py
"""

import argparse
import hashlib
import json
import math
import os
import random
import shutil
import signal
import sys
import time

INPUTS, HIDDEN, SAMPLES, BATCH = 4, 8, 64, 4
INTERRUPTED = 75


def new_state(seed):
    """Weights of a small network, moments of Adam, random numbers, order of the data, losses so far."""
    chance = random.Random(seed)
    count = INPUTS * HIDDEN + HIDDEN
    weights = [chance.gauss(0, 0.5) for _ in range(count)]
    return {"step": 0, "weights": weights, "first": [0.0] * count, "second": [0.0] * count, "order": [], "losses": []}, chance


def data():
    chance = random.Random(1)
    inputs = [[chance.uniform(-1, 1) for _ in range(INPUTS)] for _ in range(SAMPLES)]
    return [(x, math.sin(sum(x))) for x in inputs]


def gradient(weights, x, wanted, dropped):
    """Loss and gradient of tanh(x W) v on one sample, with hidden units dropped out."""
    hidden = [math.tanh(sum(x[i] * weights[i * HIDDEN + h] for i in range(INPUTS))) for h in range(HIDDEN)]
    hidden = [0.0 if dropped[h] else hidden[h] for h in range(HIDDEN)]
    out = weights[INPUTS * HIDDEN :]
    error = sum(hidden[h] * out[h] for h in range(HIDDEN)) - wanted
    slope = [0.0] * len(weights)
    for h in range(HIDDEN):
        slope[INPUTS * HIDDEN + h] = error * hidden[h]
        if not dropped[h]:
            back = error * out[h] * (1 - hidden[h] ** 2)
            for i in range(INPUTS):
                slope[i * HIDDEN + h] = back * x[i]
    return error * error / 2, slope


def train_step(state, chance, samples):
    if len(state["order"]) < BATCH:
        state["order"] = chance.sample(range(SAMPLES), SAMPLES)
    loss, total = 0.0, [0.0] * len(state["weights"])
    for _ in range(BATCH):
        x, wanted = samples[state["order"].pop()]
        dropped = [chance.random() < 0.1 for _ in range(HIDDEN)]
        one, slope = gradient(state["weights"], x, wanted, dropped)
        loss += one / BATCH
        total = [a + b / BATCH for a, b in zip(total, slope)]
    state["step"] += 1
    step = state["step"]
    for i, slope in enumerate(total):
        state["first"][i] = 0.9 * state["first"][i] + 0.1 * slope
        state["second"][i] = 0.999 * state["second"][i] + 0.001 * slope * slope
        first, second = state["first"][i] / (1 - 0.9**step), state["second"][i] / (1 - 0.999**step)
        state["weights"][i] -= 0.01 * first / (math.sqrt(second) + 1e-8)
    state["losses"].append(loss.hex())


def flush(path):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def save(folder, state, chance, ballast):
    """Complete or not there at all: written aside, flushed, renamed. `.complete` is the last file of it."""
    name = f"step-{state['step']:06d}"
    aside, place = os.path.join(folder, f".tmp-{name}"), os.path.join(folder, name)
    shutil.rmtree(aside, ignore_errors=True)
    os.makedirs(aside)
    floats = {key: [value.hex() for value in state[key]] for key in ("weights", "first", "second")}
    write(os.path.join(aside, "state.json"), json.dumps({**state, **floats, "chance": chance.getstate()}))
    if ballast:
        with open(os.path.join(aside, "ballast.bin"), "wb") as file:
            block = hashlib.sha256(name.encode()).digest() * 32768
            for _ in range(ballast):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
    write(os.path.join(aside, ".complete"), "")
    flush(aside)
    if os.path.exists(place):
        shutil.rmtree(place)
    os.rename(aside, place)
    flush(folder)


def load(path):
    with open(os.path.join(path, "state.json")) as file:
        state = json.load(file)
    version, numbers, rest = state.pop("chance")
    chance = random.Random()
    chance.setstate((version, tuple(numbers), rest))
    for key in ("weights", "first", "second"):
        state[key] = [float.fromhex(value) for value in state[key]]
    return state, chance


def newest(folder):
    """Without an agent: the newest of the folder."""
    names = [name for name in os.listdir(folder) if name.startswith("step-")] if os.path.isdir(folder) else []
    return os.path.join(folder, max(names)) if names else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--seconds-per-step", type=float, default=0.02)
    parser.add_argument("--ballast", type=int, default=0, help="MiB added to each checkpoint")
    # A run of a sweep has its own beginning.
    parser.add_argument("--seed", type=int, default=int(os.environ.get("GPUPLAN_SWEEP_INDEX", "0")))
    parser.add_argument("--keep", type=int, default=3, help="checkpoints to keep here")
    parser.add_argument("--hold-at", type=int, help="stay at this step until told to stop: an interruption that cannot come too late")
    asked = parser.parse_args()
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))

    folder = os.environ.get("GPUPLAN_CKPT_DIR", "checkpoints")
    os.makedirs(folder, exist_ok=True)
    resume = os.environ.get("GPUPLAN_RESUME_FROM")
    resume = newest(folder) if resume is None else resume
    state, chance = load(resume) if resume else new_state(asked.seed)
    print(f"train: from step {state['step']} of {asked.steps}", file=sys.stderr, flush=True)
    samples, progress = data(), os.environ.get("GPUPLAN_PROGRESS_FILE")
    saved = None

    while state["step"] < asked.steps and not stop:
        train_step(state, chance, samples)
        time.sleep(asked.seconds_per_step)
        if progress:
            with open(progress, "w") as file:
                file.write(str(state["step"]))
        if state["step"] % asked.every == 0 and state["step"] < asked.steps:
            save(folder, state, chance, asked.ballast)
            saved = state["step"]
            for old in sorted(name for name in os.listdir(folder) if name.startswith("step-"))[: -asked.keep]:
                shutil.rmtree(os.path.join(folder, old), ignore_errors=True)
        while state["step"] == asked.hold_at and not stop:
            time.sleep(0.02)
    if saved != state["step"]:
        save(folder, state, chance, asked.ballast)
    if state["step"] < asked.steps:
        print(f"train: interrupted at step {state['step']}", file=sys.stderr, flush=True)
        return INTERRUPTED
    weights = hashlib.sha256(" ".join(value.hex() for value in state["weights"]).encode()).hexdigest()
    write("result.json", json.dumps({"steps": state["step"], "weights_sha256": weights, "losses": state["losses"]}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
