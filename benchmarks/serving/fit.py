#!/usr/bin/env python3
"""Fits what an engine takes beside measured kernels (src/estimate/serving/measured.rs) on inferencex.csv, and says how far off it is.

    pip install numpy scipy zstandard
    benchmarks/serving/fit.py                # the factors on all rows, and errors in sample
    benchmarks/serving/fit.py --left-out     # errors with every pair of model and GPU left out of the fit that judges it (minutes)

The same model as the program's, written a second time, so that a slip in one shows against the other. Sizes come from
catalogs/models.toml, kernels from benchmarks/kernels. Errors are of tokens a second, time to first token and time a token.
"""

import bisect
import collections
import csv
import math
import pathlib
import statistics
import sys
import tomllib

import zstandard
from scipy.optimize import least_squares

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {row["id"]: row for row in tomllib.load(open(ROOT / "catalogs/models.toml", "rb"))["model"]}
# Bytes a second of memory and bf16 FLOP/s of the sheets, as catalogs/gpus.toml has them.
SHEET = {
    "h100-sxm5-80": (3.35e12, 989e12),
    "h200-sxm-141": (4.8e12, 989e12),
    "b200-sxm-180": (8.0e12, 2250e12),
    "b300-sxm-288": (8.0e12, 2250e12),
    "gb200-186": (8.0e12, 2500e12),
}
FP4 = {"b200-sxm-180", "b300-sxm-288", "gb200-186"}
CHUNK = 8192


def log(place):
    return math.log(max(place, 0.5))


class Surface:
    """One part of a table, read as src/estimate/kernels/surface.rs does."""

    def __init__(self, name, lines):
        kind, *rest = name.split()
        windowed = kind in ("context", "decode") and rest[-1] != "0"
        self.growth = {
            "gemm": (1, 1, 1),
            "context": (0, 1, 1 if windowed else 2),
            "encoder": (0, 1, 2),
            "decode": (0, 1, 0 if windowed else 1),
            "mla_context": (1, 1, 2),
            "mla_decode": (1, 1, 1),
        }.get(kind, (0, 0, 1))
        self.curved = kind != "gemm"
        self.along = [log(float(place)) for place in lines[1].split(",")[1:]]
        self.outer, self.rows = [], []
        for line in lines[2:]:
            outer, middle, cells = line.split(",", 2)
            figures = tuple(float(figure) for figure in outer.split("x"))
            if not self.outer or self.outer[-1] != figures:
                self.outer.append(figures)
                self.rows.append([])
            code, row = 0, []
            for difference in cells.split():
                code += int(difference)
                row.append(code * 0.02)
            before = self.rows[-1][-1][1] if self.rows[-1] else None
            for at in range(len(row), len(self.along)):
                rise = before[at] - before[at - 1] if before else self.growth[2] * (self.along[at] - self.along[at - 1])
                row.append(row[-1] + rise)
            self.rows[-1].append((log(float(middle)), row))
        self.places = [log(figures[0]) for figures in self.outer]
        self.middles = [[middle for middle, _ in rows] for rows in self.rows]

    @staticmethod
    def bracket(places, at):
        following = bisect.bisect_right(places, at)
        low = max(following - 1, 0)
        if following == 0:
            return low, 0.0, 0.0
        if following == len(places):
            return low, 0.0, at - places[low]
        return low, (at - places[low]) / (places[following] - places[low]), 0.0

    def cell(self, row, column):
        low, share, _ = column
        a = row[low]
        if share == 0:
            return a
        b = row[low + 1]
        if not self.curved:
            return a + share * (b - a)
        width, rise = self.along[low + 1] - self.along[low], b - a

        def slope(chord):
            if chord is None:
                return rise
            return 2 * chord * rise / (chord + rise) if chord * rise > 0 else 0

        before = slope((a - row[low - 1]) * width / (self.along[low] - self.along[low - 1]) if low > 0 else None)
        last = low + 2 >= len(self.along)
        after = slope(None if last else (row[low + 2] - b) * width / (self.along[low + 2] - self.along[low + 1]))
        s, r = share, 1 - share
        return a * (1 + 2 * s) * r * r + before * s * r * r + b * (3 - 2 * s) * s * s - after * s * s * r

    def on(self, outer, middle, along):
        column = self.bracket(self.along, log(along))
        low, share, beyond = self.bracket(self.middles[outer], log(middle))
        at = self.cell(self.rows[outer][low][1], column)
        if share > 0:
            at += share * (self.cell(self.rows[outer][low + 1][1], column) - at)
        return at + beyond * self.growth[1] + column[2] * self.growth[2]

    def seconds(self, outer, middle, along):
        low, share, beyond = self.bracket(self.places, log(outer))
        at = self.on(low, middle, along)
        if share > 0:
            at += share * (self.on(low + 1, middle, along) - at)
        return math.exp(at + beyond * self.growth[0]) * 1e-6


class Table:
    def __init__(self, gpu):
        packed = open(ROOT / f"benchmarks/kernels/{gpu}.txt.zst", "rb")
        text = zstandard.ZstdDecompressor().stream_reader(packed).read().decode()
        self.text = {part.split("\n", 1)[0]: part for part in text.split("\ntable,")[1:]}
        self.read = {}

    def get(self, name):
        if name not in self.read:
            lines = [line for line in self.text.get(name, "").split("\n")[1:] if line]
            self.read[name] = Surface(name, lines) if lines else None
        return self.read[name]


TABLES = {}


class Replica:
    """One copy of a model, as a row of inferencex.csv has it."""

    def __init__(self, row):
        self.model, self.gpu = MODELS[row["model"]], row["gpu"]
        self.table = TABLES.setdefault(self.gpu, None) or TABLES.update({self.gpu: Table(self.gpu)}) or TABLES[self.gpu]
        self.engine = "trtllm" if row["engine"] == "tensorrt-llm" else "vllm"
        self.other = "vllm" if self.engine == "trtllm" else "trtllm"
        self.gpus, self.groups = int(row["gpus"]), int(row["attention_groups"])
        self.heads = self.gpus // self.groups
        self.dealt_out, self.cache = row["expert_parallel"] == "1", row["kv_cache"]
        mixture, latent = self.model["kind"] == "moe", "kv_lora_rank" in self.model
        fp8 = "fp8_block" if mixture else "fp8"
        mxfp4 = "mxfp4_mxfp8" if self.gpu in FP4 else "mxfp4_weights"
        self.projections, self.dense, self.experts = {
            "bf16": ("bf16",) * 3,
            "fp8": (fp8,) * 3,
            "nvfp4": ("bf16" if latent else "nvfp4", "nvfp4", "nvfp4"),
            "int4": ("bf16", "bf16", "int4_weights"),
            "mxfp4": ("bf16", "bf16", mxfp4),
        }[row["weights"]]
        self.latent, self.mixture = latent, mixture

    def fastest(self, ask):
        found = [seconds for seconds in (ask("trtllm"), ask("vllm")) if seconds is not None]
        return min(found)

    def own(self, name, *place):
        for engine in (self.engine, self.other):
            surface = self.table.get(name.format(engine))
            if surface:
                return surface.seconds(*place)
        return None

    def product(self, precision, m, n, k):
        def ask(engine):
            surface = self.table.get(f"gemm {engine} {precision}")
            return surface and surface.seconds(n, k, m)

        return self.fastest(ask)

    def all_reduce(self, size):
        names = (f"collective {self.engine} all_reduce", "collective nccl all_reduce")
        return min(self.table.get(name).seconds(0, self.gpus, size) for name in names if self.table.get(name))

    def mixed(self, tokens):
        m = self.model
        parts = self.gpus if self.dealt_out else 1
        width = m["expert_ffn_hidden"] / (1 if self.dealt_out else self.gpus)
        hidden, chosen, all_experts = m["hidden"], m["experts_per_token"], m["experts"]

        def ask(engine):
            surface = self.table.get(f"moe {engine} {self.experts} skewed")
            if surface is None:
                return None

            def apart(a, b):
                return abs(math.log(a / b))

            def distance(at):
                h, w, k, e = surface.outer[at]
                return apart(h, hidden) + apart(w, width) + apart(k / e, chosen / all_experts) + 0.5 * apart(e, all_experts)

            nearest = min(range(len(surface.outer)), key=distance)
            h, w, k, e = surface.outer[nearest]
            seen = tokens * self.groups * (chosen / all_experts) / (k / e)
            return math.exp(surface.on(nearest, parts, seen)) * 1e-6 * hidden * width / (h * w) * all_experts / e

        return self.fastest(ask)

    def layers(self, tokens):
        """All layers but attention: products, experts, collectives, element-wise work. Seconds."""
        m, hidden, count = self.model, self.model["hidden"], self.model["layers"]
        bandwidth, peak = SHEET[self.gpu]
        heads = m["heads"] / self.heads
        if self.latent:
            rank, query, rope = m["kv_lora_rank"], m["q_lora_rank"], m["qk_rope_head_dim"]
            plain, value = m["qk_nope_head_dim"], m["v_head_dim"]
            weights = heads * rank * (plain + value)
            products = (
                self.product(self.projections, tokens, query + rank + rope, hidden)
                + self.product(self.projections, tokens, heads * (plain + rope), query)
                + self.product(self.projections, tokens, hidden, heads * value)
                + 2 * weights / (0.8 * bandwidth)
                + 2 * tokens * weights / (0.5 * peak)
            )
        else:
            head, keys = m.get("head_dim") or hidden // m["heads"], max(m["kv_heads"] / self.heads, 1)
            products = self.product(self.projections, tokens, (heads + 2 * keys) * head, hidden)
            products += self.product(self.projections, tokens, hidden, heads * head)

        def dense(width):
            return self.product(self.dense, tokens, 2 * width, hidden) + self.product(self.dense, tokens, hidden, width)

        experts = 0.0
        if self.mixture:
            share = (m.get("dense_layers") or 0) / count
            if share:
                products += share * dense(m["ffn_hidden"] / self.gpus)
            experts = self.product("bf16", tokens, m["experts"], hidden) + self.mixed(tokens)
            if m.get("shared_experts"):
                split = self.gpus if self.groups == 1 else 1
                experts += dense(m["expert_ffn_hidden"] * m["shared_experts"] / split)
            experts *= 1 - share
        else:
            products += dense(m["ffn_hidden"] / self.gpus)
        size, collectives = 2 * tokens * hidden, 0.0
        if self.gpus > 1 and self.groups == 1:
            collectives = 2 * self.all_reduce(size)
        elif self.gpus > 1:
            names = ("collective nccl all_gather", "collective nccl reduce_scatter")
            collectives = sum(self.table.get(name).seconds(0, self.gpus, size * self.groups) for name in names)
        return {
            "products": count * products,
            "experts": count * experts,
            "collectives": count * collectives,
            "elements": count * tokens * hidden * 20 / (0.8 * bandwidth),
        }

    def windows(self, full, length, windowed):
        """On average over layers with and without a window."""
        tokens = self.model.get("window_tokens")
        if not tokens:
            return full
        share = self.model["window_layers"] / self.model["layers"]
        seconds = windowed(tokens if tokens < length else 0)
        return share * (min(tokens / length, 1) * full if seconds is None else seconds) + (1 - share) * full

    def latent_attention(self, kind, batch, length):
        for cache in (self.cache, "bf16"):
            seconds = self.own(f"{kind} {{}} {cache}", self.model["heads"] / self.heads, batch, length)
            if seconds is not None:
                return seconds
        raise KeyError(kind)

    def decode(self, sequences, context):
        m = self.model
        if self.latent:
            length = min(context, m["window_tokens"]) if m.get("window_tokens") else context
            return m["layers"] * self.latent_attention("mla_decode", sequences, length)
        heads, keys = m["heads"] / self.heads, max(m["kv_heads"] / self.heads, 1)
        head = m.get("head_dim") or m["hidden"] // m["heads"]

        def ask(window):
            return self.own(f"decode {{}} {self.cache} {head} {window}", heads / keys, sequences * keys, context)

        return m["layers"] * self.windows(ask(0), context, ask)

    def context(self, length):
        m = self.model
        if self.latent:
            return m["layers"] * self.latent_attention("mla_context", 1, length)
        heads, keys = m["heads"] / self.heads, max(m["kv_heads"] / self.heads, 1)
        head = m.get("head_dim") or m["hidden"] // m["heads"]

        def ask(window):
            for arithmetic in (self.cache if self.engine == "trtllm" else "bf16", "bf16"):
                name = f"context {{}} {arithmetic} {self.cache} {head} {window}"
                seconds = self.own(name, heads / keys, heads, length)
                if seconds is not None:
                    return seconds
            return None

        return m["layers"] * self.windows(ask(0), length, ask)

    def a_pass(self, sequences, context):
        parts = self.layers(sequences)
        head = self.product("bf16", sequences, self.model["vocab"] / self.gpus, self.model["hidden"])
        return {**parts, "products": parts["products"] + head, "attention": self.decode(sequences, context)}

    def prompt(self, length):
        tokens = min(length, CHUNK)
        parts = {name: seconds * length / tokens for name, seconds in self.layers(tokens).items()}
        return {**parts, "attention": self.context(length)}


# What is fitted, what is thought of it before, and how far it may go: factors of kernels, microseconds of a layer and of one with an
# index, milliseconds of a pass and of a request, the share of users that are in step.
PRIOR = {
    "products": (1, 0.25),
    "experts": (1, 0.25),
    "attention": (1, 0.25),
    "collectives": (1, 0.3),
    "layer": (6, 8),
    "host": (1, 1),
    "prompt": (1, 0.2),
    "in_step": (0.5, 0.3),
    "request": (20, 25),
    "index": (0, 40),
}


def load():
    rows = []
    for row in csv.DictReader(open(ROOT / "benchmarks/serving/inferencex.csv")):
        replica = Replica(row)
        users = float(row["users"]) / replica.groups
        prompt, answer = int(row["prompt_tokens"]), int(row["answer_tokens"])
        at = sorted({max(users * share, 1) for share in (1, 0.9, 0.75, 0.5)})
        rows.append({
            "pair": (row["model"], row["gpu"]),
            "engine": row["engine"],
            "layers": replica.model["layers"],
            "indexed": replica.latent and bool(replica.model.get("window_tokens")),
            "users": users,
            "prompt_tokens": prompt,
            "answer": answer,
            "first": float(row["first_token_ms"]) / 1e3,
            "each": float(row["per_token_ms"]) / 1e3,
            "prompt": replica.prompt(prompt),
            "passes": [(batch, replica.a_pass(batch, prompt + answer / 2)) for batch in at],
        })
    return rows


def between(passes, batch):
    if batch <= passes[0][0]:
        return passes[0][1]
    for (low, below), (high, above) in zip(passes, passes[1:]):
        if batch <= high:
            share = (batch - low) / (high - low)
            return {name: below[name] + share * (above[name] - below[name]) for name in below}
    return passes[-1][1]


def predict(row, factors):
    factors = {name: max(value, 0) for name, value in factors.items()}
    weighed = ("products", "experts", "attention", "collectives")
    beside = row["layers"] * (factors["layer"] + row["indexed"] * factors["index"]) * 1e-6 + factors["host"] * 1e-3

    def seconds(parts):
        return sum(factors[name] * parts[name] for name in weighed) + parts["elements"]

    prompt = factors["prompt"] * seconds(row["prompt"]) + beside * math.ceil(row["prompt_tokens"] / CHUNK)
    users, answer, in_step = row["users"], row["answer"], min(factors["in_step"], 1)
    batch = users
    for _ in range(8):
        each_pass = seconds(between(row["passes"], batch)) + beside
        first = prompt + factors["request"] * 1e-3 + each_pass / 2 + in_step * users * prompt / 2
        each = each_pass + max(users - 1, 0) * prompt * (1 - in_step / 2) / answer
        batch = (batch + users * answer * each / (first + answer * each)) / 2
    return first, each


def ratios(row, factors):
    first, each = predict(row, factors)
    measured = row["first"] + row["answer"] * row["each"]
    return measured / (first + row["answer"] * each), first / row["first"], each / row["each"]


def fit(rows):
    """Every pair of model and GPU counts the same; runs far off count no more than by a factor of 1.8."""
    count = collections.Counter(row["pair"] for row in rows)

    def misses(values):
        factors, found = dict(zip(PRIOR, values)), []
        for row in rows:
            weight = count[row["pair"]] ** -0.5
            for ratio, importance, most in zip(ratios(row, factors), (1, 0.35, 1), (0.6, 1.0, 0.6)):
                miss = math.log(ratio)
                found.append(weight * importance * math.copysign(min(abs(miss), most), miss))
        found += [0.175 * (factors[name] - mean) / width for name, (mean, width) in PRIOR.items()]
        return found

    solved = least_squares(misses, [mean for mean, _ in PRIOR.values()], diff_step=1e-2, max_nfev=25)
    return dict(zip(PRIOR, solved.x))


def main():
    rows, judged = load(), []
    for engine in ("tensorrt-llm", "vllm", "sglang"):
        own = [row for row in rows if row["engine"] == engine]
        factors = fit(own)
        print(engine, {name: round(float(value), 2) for name, value in factors.items()})
        if "--left-out" not in sys.argv:
            judged += [(row["pair"], ratios(row, factors)) for row in own]
            continue
        for pair in sorted({row["pair"] for row in own}):
            factors = fit([row for row in own if row["pair"] != pair])
            judged += [(pair, ratios(row, factors)) for row in own if row["pair"] == pair]
    pairs = collections.defaultdict(list)
    for pair, found in judged:
        pairs[pair].append([abs(ratio - 1) for ratio in found])
    for pair, errors in sorted(pairs.items()):
        print(*pair, len(errors), *(f"{100 * statistics.mean(error[at] for error in errors):.0f}" for at in range(3)))
    for at, name in enumerate(("tokens/s", "first token", "per token")):
        errors = [error[at] for group in pairs.values() for error in group]
        of_pairs = [statistics.mean(error[at] for error in group) for group in pairs.values()]
        print(
            f"{name}: mean {100 * statistics.mean(errors):.1f} %, median {100 * statistics.median(errors):.1f} %,",
            f"mean of pairs {100 * statistics.mean(of_pairs):.1f} %, median of pairs {100 * statistics.median(of_pairs):.1f} %",
        )
    misses = sorted(abs(math.log(found[0])) for _, found in judged)
    print(f"80 % of tokens/s are within a factor of {math.exp(misses[int(0.8 * len(misses))]):.2f}")


if __name__ == "__main__":
    main()
