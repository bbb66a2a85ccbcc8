#!/usr/bin/env python3
"""Fits what eager and channels-last convolution nets move (src/estimate/time/vision.rs, serving/one_pass.rs) on published.csv.

    pip install numpy scipy
    benchmarks/images/fit.py             # the constants on all rows, and errors with every GPU left out of the fit that judges it
    benchmarks/images/fit.py --rows      # the same with every row

The same model as the program's, written a second time, so that a slip in one shows against the other. The constants of training, which were
fitted on other rows (benchmarks/results/constants.toml), stay as they are. Transformers are judged by the program alone.
"""

import csv
import pathlib
import sys
import tomllib

import numpy as np
from scipy.optimize import least_squares

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {row["id"]: row for row in tomllib.load(open(ROOT / "catalogs/models.toml", "rb"))["model"]}
GPUS = {row["id"]: row for row in tomllib.load(open(ROOT / "catalogs/gpus.toml", "rb"))["gpu"]}
CONSTANTS = tomllib.load(open(ROOT / "benchmarks/results/constants.toml", "rb"))["values"]
# Work of a watt and share of the fit of a generation (src/estimate/constants.rs).
GENERATIONS = {
    "volta": (1, "generation_volta"),
    "turing": (1, "generation_turing"),
    "ampere-ga10x": (1.5, "generation_ga10x"),
    "ampere": (2, None),
    "ada": (3, "generation_ada"),
    "hopper": (3.5, "generation_hopper"),
    "blackwell": (4.5, "generation_blackwell"),
    "blackwell-rtx": (4.5, "generation_blackwell"),
}
# Elements that a training step of ResNet-50 moves for each that its forward pass writes.
RESNET_ELEMENTS = 11.11e6


class Row:
    """What a row computes and moves for one image, and what its GPU sustains (src/estimate/device.rs)."""

    def __init__(self, row):
        model, gpu, known = MODELS[row["model"]], GPUS[row["gpu"]], CONSTANTS
        self.row, self.gpu, self.trains = row, row["gpu"], row["work"] == "train"
        self.batch, self.parameters = int(row["batch"]), model["parameters"]
        self.measured = float(row["images_per_second"]) / int(row["gpus"])
        area = (float(row["side"]) / model["sample_side"]) ** 2
        self.forward = model["forward_gflop_per_sample"] * 1e9 * area
        self.written = model["forward_million_elements_per_sample"] * 1e6 * area
        self.norm = model.get("conv_norm", "batch")
        precision, peaks = row["precision"], gpu["peak_tflops"]
        half = max(peaks.get(name, 0) for name in ("bf16", "fp16", "fp32"))
        on_vectors = precision == "fp32" or precision == "tf32" and "tf32" not in peaks
        self.single = precision in ("fp32", "tf32")
        self.channels_last = not self.single and row["layout"] == "channels-last"
        self.bytes = 4 if self.single else 2
        work, generation = GENERATIONS[gpu["architecture"]]
        clock = known["geforce_clock"] if gpu["name"].startswith("GeForce") else 1
        ceiling = gpu.get("matmul_ceiling_tflops", {}).get("bf16")
        tensor_power = min(1, gpu["tdp_watts"] / half * work * (0.73 if gpu["architecture"] == "ada" else 1) / 2.5)
        if ceiling or gpu["family"] in ("A100", "H200"):
            tensor_power = 1
        a100 = 271.2 if gpu["form_factor"] == "sxm" else 252.9
        share = ceiling / half if ceiling else a100 / 312 if gpu["family"] == "A100" else 0.8
        sustained = known["gemm_share"] * clock
        exponent = known["power_exponent"]
        vector_power = min(1, gpu["tdp_watts"] / peaks["fp32"] * work / 18) ** exponent
        vector = peaks["fp32"] * 1e12 * 0.95 * sustained * known["fp32_share"] * vector_power
        peak = peaks["tf32"] if self.single and not on_vectors else half
        tensor = peak * 1e12 * share * sustained * tensor_power**exponent * (known[generation] if generation else 1)
        winograd, tensor = vector * known["convolution_vector_share"], tensor * known["convolution_share"]
        self.rate = winograd if on_vectors else max(tensor, winograd) if self.single else tensor
        reached = 0.975 if gpu["memory_type"].startswith("GDDR") else 0.91
        stream = gpu.get("stream_gb_per_s", gpu["memory_bandwidth_gb_per_s"] * reached) * 1e9 * known["bandwidth_share"]
        each = stream / gpu["streaming_multiprocessors"]
        self.bandwidth = stream * known["convolution_bandwidth"] / (1 + each / known["multiprocessor_bandwidth"])

    def rate_of_images(self, c):
        """Images a second (`vision::step`, `Replica::convolved`)."""
        if self.trains:
            flops = CONSTANTS["resnet_flops"] * self.forward / 8.178e9
            moved = CONSTANTS["resnet_elements"] / RESNET_ELEMENTS * self.written
            moved *= {"batch": 1, "layer": c["layer"], "none": c["none"]}[self.norm]
        else:
            flops, moved = self.forward, c["eager"] * self.written
            moved *= {"batch": 1, "layer": c["eager_layer"], "none": c["eager_none"]}[self.norm]
        traffic = self.batch * moved * self.bytes / self.bandwidth
        if self.channels_last:
            arithmetic = self.batch * flops / (self.rate * c["channels_last"])
            busy = np.hypot(arithmetic, traffic)
        else:
            busy = self.batch * flops / self.rate + traffic
        host = CONSTANTS["resnet_host_seconds"]
        if not self.trains:
            return self.batch / max(busy, host)
        busy += host
        loading = self.batch / CONSTANTS["resnet_loader_rate"] if "photographs" in self.row["notes"] else 0
        return self.batch / ((busy**6 + loading**6) ** (1 / 6) + 32 * self.parameters / self.bandwidth)


# What is thought of each before, and how far it may go. Times the elements of nets with batch norms: with layer norms, whose results AMP keeps in
# 32 bits; without norms, counted 11 of 19. `eager`: elements that an eager forward pass moves for each that it writes, counted 2 for a convolution,
# 2 for its norm, 2 for its activation. `channels_last`: rate of convolutions over that of planar ones.
PRIOR = {
    "channels_last": (1.15, 0.2),
    "layer": (1.3, 0.3),
    "none": (0.6, 0.15),
    "eager": (6.0, 1.5),
    "eager_layer": (1.3, 0.3),
    "eager_none": (0.7, 0.2),
}


def fit(rows):
    def misses(values):
        c = dict(zip(PRIOR, np.maximum(values, 0.05)))
        logs = [np.log(row.rate_of_images(c) / row.measured) for row in rows]
        far = np.clip(logs, -0.5, 0.5)
        return np.concatenate([far, [(c[name] - mean) / width for name, (mean, width) in PRIOR.items()]])

    return dict(zip(PRIOR, least_squares(misses, [mean for mean, _ in PRIOR.values()], diff_step=1e-3).x))


def main():
    published = csv.DictReader(open(ROOT / "benchmarks/images/published.csv"))
    rows = [Row(row) for row in published if MODELS[row["model"]]["kind"] == "cnn"]
    print({name: round(float(value), 3) for name, value in fit(rows).items()})
    errors = {}
    for gpu in sorted({row.gpu for row in rows}):
        found = fit([row for row in rows if row.gpu != gpu])
        for row in rows:
            if row.gpu == gpu:
                errors[row.row["id"]] = (row, row.rate_of_images(found) / row.measured - 1)
    for work in ("train", "infer"):
        for name, kept in [("all", None)] + [(gpu, gpu) for gpu in sorted({row.gpu for row in rows})]:
            some = [abs(error) for row, error in errors.values() if row.row["work"] == work and kept in (None, row.gpu)]
            if some:
                print(f"{work} {name}: {len(some)} rows, median {100 * np.median(some):.1f} %, mean {100 * np.mean(some):.1f} %")
    if "--rows" in sys.argv:
        for row, error in errors.values():
            r = row.row
            print(r["work"], r["gpu"], r["gpus"], r["precision"], r["layout"], r["batch"], r["model"], f"{100 * error:+.0f} %")


if __name__ == "__main__":
    main()
