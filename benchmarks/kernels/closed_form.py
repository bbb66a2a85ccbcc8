#!/usr/bin/env python3
"""Fits the closed form of products (src/estimate/time/gemm.rs) to measured ones, with every GPU left out once.

    closed_form.py SOURCE

The form is max(2 m n k / (peak x share) x quantisation^w x (1 + r / k), bytes / (bandwidth x share of it)) + launch. It is fitted
for each precision by the median of the absolute logarithm, for a GPU once to itself and once to the others of its generation, or
where there are none to all others. Needs what pack.py needs, and scipy.
"""

import argparse
import sys
import tomllib
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).parent))
import pack

TILES = [(256, 128, 1.0), (128, 128, 0.95), (128, 64, 0.80), (64, 64, 0.62)]
# Bytes of an element of the factors, and which peak.
FORMATS = {"bf16": (2, "bf16"), "fp8": (1, "fp8"), "fp8_block": (1, "fp8"), "nvfp4": (0.5625, "fp4")}
POINTS = 3000


def products(folder: Path, gpu: dict):
    """Of 3,000 products of each precision that take at least 100 microseconds, the faster engine: the figures of the form and
    seconds."""
    every = pack.points(folder)
    every = every[every.table.str.startswith("gemm")]
    for precision, (size, peak) in FORMATS.items():
        d = every[every.table.str.split().str[2] == precision]
        if d.empty:
            continue
        d = d.loc[d.groupby("shape").microseconds.idxmin()].assign(table=precision)
        d = d[d.microseconds >= 100]
        d = d.iloc[np.argsort(pack.hashed(gpu["id"], d), kind="stable")[:POINTS]]
        n, k, m = (d[column].to_numpy(float) for column in ("outer", "middle", "along"))
        cores = gpu["streaming_multiprocessors"]
        tiles = [np.ceil(np.ceil(m / a) * np.ceil(n / b) / cores) * cores * a * b / (m * n * c) for a, b, c in TILES]
        arithmetic = 2 * m * n * k / (gpu["peak_tflops"][peak] * 1e12)
        traffic = ((m * k + k * n) * size + m * n * 2) / (gpu["memory_bandwidth_gb_per_s"] * 1e9)
        yield precision, (arithmetic, np.min(tiles, axis=0), k, traffic, d.microseconds.to_numpy() * 1e-6)


def errors(constants, points):
    share, wave, reduction, bandwidth, launch = constants
    arithmetic, tiles, k, traffic, seconds = points
    work = arithmetic / share * tiles**wave * (1 + reduction / k)
    return np.log((np.maximum(work, traffic / bandwidth) + launch * 1e-6) / seconds)


def fitted(sets):
    def cost(c):
        sane = 0.02 < c[0] <= 1 and 0.02 < c[3] <= 1 and min(c[1], c[2], c[4]) >= 0
        return np.mean([np.mean(np.abs(errors(c, points))) for points in sets]) if sane else 1e9

    starts = ([0.75, 0.5, 100.0, 0.8, 5.0], [0.6, 0.8, 400.0, 0.8, 5.0])
    return min((minimize(cost, s, method="Nelder-Mead", options={"maxiter": 800}) for s in starts), key=lambda r: r.fun).x


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("source", type=Path)
    source = arguments.parse_args().source
    catalog = Path(__file__).parent / "../../catalogs/gpus.toml"
    gpus = {gpu["id"]: gpu for gpu in tomllib.loads(catalog.read_text())["gpu"]}
    measured = {id: dict(products(source / system, gpus[id])) for system, id in pack.GPUS.items()}
    print("| GPU | precision | fitted to itself | left out | share of peak | wave exponent | reduction length |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for precision in FORMATS:
        for id, of in measured.items():
            if precision not in of:
                continue
            others = [other for other in measured if other != id and precision in measured[other]]
            same = [other for other in others if gpus[other]["architecture"] == gpus[id]["architecture"]]
            own = fitted([of[precision]])
            left_out = fitted([measured[other][precision] for other in same or others])
            median = [np.median(np.abs(np.expm1(errors(c, of[precision])))) * 100 for c in (own, left_out)]
            print(f"| {id} | {precision} | {median[0]:.1f} | {median[1]:.1f} | {own[0]:.2f} | {own[1]:.2f} | {own[2]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
