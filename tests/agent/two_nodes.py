#!/usr/bin/env python3
"""A trainer on several machines: each step it exchanges a number and the wish to stop, and each saves its own shard.

Without a time limit on the exchange, as with most collective libraries: who loses its peer hangs, or fails if the connection is
reset. It stays at the step HOLD, if there is one, until told to stop. MEET is the port of the first node, or a file into which it
writes the port that it was given.
"""

import json
import os
import signal
import socket
import sys
import time

NODE, NODES = int(os.environ.get("GPUPLAN_NODE", "0")), int(os.environ.get("GPUPLAN_NODES", "1"))
MEET, STEPS, PACE = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
HOLD = int(sys.argv[4]) if len(sys.argv) > 4 else None
FOLDER = os.environ.get("GPUPLAN_CKPT_DIR", "checkpoints")
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))


def connect():
    if NODE == 0:
        server = socket.create_server(("127.0.0.1", int(MEET) if MEET.isdigit() else 0))
        if not MEET.isdigit():
            with open(MEET + ".new", "w") as file:
                file.write(str(server.getsockname()[1]))
            os.rename(MEET + ".new", MEET)
        return [server.accept()[0].makefile("rw") for _ in range(NODES - 1)]
    while True:
        try:
            port = int(MEET) if MEET.isdigit() else int(open(MEET).read())
            return [socket.create_connection(("127.0.0.1", port)).makefile("rw")]
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.02)


def say(peer, what):
    peer.write(json.dumps(what) + "\n")
    peer.flush()


def hear(peer):
    line = peer.readline()
    while not line:
        time.sleep(1)
    return json.loads(line)


def exchange(peers, value, wish):
    """Sum of all values, and whether anybody wants to stop: the same everywhere."""
    if NODE:
        say(peers[0], [value, wish])
        return hear(peers[0])
    said = [hear(peer) for peer in peers]
    total = [value + sum(one[0] for one in said), wish or any(one[1] for one in said)]
    for peer in peers:
        say(peer, total)
    return total


def save(step, value):
    place = os.path.join(FOLDER, f"step-{step:06d}")
    aside = os.path.join(FOLDER, f".tmp-{step}-{NODE}")
    os.makedirs(aside, exist_ok=True)
    for name, text in ((f"shard-{NODE}.json", json.dumps([step, value.hex()])), ("own.json", str(NODE)), (".complete", "")):
        with open(os.path.join(aside, name), "w") as file:
            file.write(text)
    if not os.path.exists(place):
        os.rename(aside, place)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    step, value, resume = 0, 1.0 + NODE, os.environ.get("GPUPLAN_RESUME_FROM")
    if resume:
        shards = [json.load(open(os.path.join(resume, f"shard-{node}.json"))) for node in range(NODES)]
        assert len({shard[0] for shard in shards}) == 1, f"shards of different steps: {shards}"
        assert open(os.path.join(resume, "own.json")).read() == str(NODE), "another node's own file"
        step, value = shards[NODE][0], float.fromhex(shards[NODE][1])
    peers = connect()
    print(f"node {NODE}: from step {step}", flush=True)
    while step < STEPS:
        total, is_over = exchange(peers, value, bool(stop))
        if is_over:
            save(step, value)
            print(f"node {NODE}: stopped at step {step}", flush=True)
            sys.exit(75)
        time.sleep(PACE)
        if step == HOLD:
            continue
        step, value = step + 1, (value * 0.9 + total * 0.01 + (NODE + 1) * 0.001)
        if step % 10 == 0:
            save(step, value)
    with open("result.json", "w") as file:
        json.dump([step, value.hex()], file)


main()
