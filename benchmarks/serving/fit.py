#!/usr/bin/env python3
"""Fits what an engine takes beside measured kernels (src/estimate/serving/measured.rs) on inferencex.csv, and says how far off it is.

    pip install numpy scipy zstandard
    benchmarks/serving/fit.py                # the factors on all rows, and errors in sample
    benchmarks/serving/fit.py --left-out     # errors with every pair of model and GPU left out of the fit that judges it
    benchmarks/serving/fit.py --left-out --contradicting     # with the runs that contradict each other too
    benchmarks/serving/fit.py --left-out --versions          # and whether the engine's version would make them smaller

The same model as the program's, written a second time, so that a slip in one shows against the other. Sizes come from
catalogs/models.toml, kernels from benchmarks/kernels. Errors are of tokens a second, time to first token and time a token.
"""

import bisect
import csv
import math
import pathlib
import sys
import tomllib

import numpy as np
import zstandard
from scipy.optimize import least_squares

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {row["id"]: row for row in tomllib.load(open(ROOT / "catalogs/models.toml", "rb"))["model"]}
# Bytes a second of memory and bf16 FLOP/s of the sheets, and MiB that are visible, as catalogs/gpus.toml has them.
SHEET = {
    "h100-sxm5-80": (3.35e12, 989e12, 81559),
    "h200-sxm-141": (4.8e12, 989e12, 143771),
    "b200-sxm-180": (8.0e12, 2250e12, 183359),
    "b300-sxm-288": (8.0e12, 2250e12, 275040),
    "gb200-186": (8.0e12, 2500e12, 189471),
}
# Bytes a second of the link one way, the share of it that is reached and seconds of a hop (catalogs/gpus.toml, benchmarks/results/constants.toml).
LINK = {"h100-sxm5-80": 450e9, "h200-sxm-141": 450e9, "b200-sxm-180": 900e9, "b300-sxm-288": 900e9, "gb200-186": 900e9}
NVLINK_SHARE, HOP = 0.7, 10e-6
BYTES = {"bf16": 2, "fp8": 1, "int8": 1, "int4": 0.5 + 2.5 / 128, "mxfp4": 0.5 + 1 / 32, "nvfp4": 0.5 + 1 / 16}
FP4 = {"b200-sxm-180", "b300-sxm-288", "gb200-186"}
CHUNK = 8192
PADDED = (8, 16, 32, 64, 128)


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
        self.dealt_out, self.cache, self.weights = row["expert_parallel"] == "1", row["kv_cache"], row["weights"]
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
        """A product of more rows does for one of fewer: engines pick, and pad, among kernels made for powers of two."""

        def ask(engine):
            surface = self.table.get(f"gemm {engine} {precision}")
            return surface and min(surface.seconds(n, k, rows) for rows in (m, *PADDED) if rows >= m)

        return self.fastest(ask)

    def all_reduce(self, size):
        """Engines take over each other's kernels, and pick by size."""
        tables = [self.table.get(f"collective {who} all_reduce") for who in ("trtllm", "vllm", "nccl")]
        return min(table.seconds(0, self.gpus, size) for table in tables if table)

    def mixed(self, tokens):
        m = self.model
        parts = self.gpus if self.dealt_out else 1
        width = m["expert_ffn_hidden"] / (1 if self.dealt_out else self.gpus)
        hidden, chosen, all_experts = m["hidden"], m["experts_per_token"], m["experts"]

        def one(engine, routing):
            surface = self.table.get(f"moe {engine} {self.experts} {routing}")
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

        def ask(engine):
            """Text lies between tokens dealt out evenly and those of a power law."""
            even, skewed = one(engine, "balanced"), one(engine, "skewed")
            return math.sqrt(even * skewed) if even and skewed else even or skewed

        own = ask("vllm") if self.engine == "vllm" else None
        return self.fastest(ask) if own is None else own

    def layers(self, tokens):
        """All layers but attention: products, experts, collectives, element-wise work. Seconds."""
        m, hidden, count = self.model, self.model["hidden"], self.model["layers"]
        bandwidth, peak, _ = SHEET[self.gpu]
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
            # A norm over all heads of queries, and one of keys, whose heads lie on all GPUs: a float32 a token each.
            collectives += 2 * self.all_reduce(4 * tokens) if m.get("query_key_norm") == "layer" else 0
        elif self.gpus > 1:
            names = ("collective nccl all_gather", "collective nccl reduce_scatter")
            collectives = sum(self.table.get(name).seconds(0, self.gpus, size * self.groups) for name in names)
            if self.dealt_out:
                # Tokens alone, to each GPU of their experts in 8 bits and back in 16.
                reached = min(m["experts_per_token"], self.gpus) * (1 - 1 / self.gpus)
                sent = tokens * hidden * reached * 3 / (NVLINK_SHARE * LINK[self.gpu]) + 2 * HOP
                collectives = min(collectives, (1 - (m.get("dense_layers") or 0) / count) * sent)
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

    def prompt(self, length, tokens=None):
        tokens = tokens or min(length, CHUNK)
        parts = {name: seconds * length / tokens for name, seconds in self.layers(tokens).items()}
        return {**parts, "attention": self.context(length)}

    def room(self, prompt, answer):
        """Sequences that fit beside the weights in one attention group (`Replica::held`): TensorRT-LLM keeps room for all of an answer,
        the others for what is written of it, and some that they put back and read again."""
        length = prompt + answer * (1 if self.engine == "trtllm" else 0.7)
        m, hidden = self.model, self.model["hidden"]
        if self.latent:
            rank, query, rope = m["kv_lora_rank"], m["q_lora_rank"], m["qk_rope_head_dim"]
            plain, value, heads = m["qk_nope_head_dim"], m["v_head_dim"], m["heads"]
            attention = query * (hidden + heads * (plain + rope)) + hidden * (rank + rope)
            attention += rank * heads * (plain + value) + heads * value * hidden
            elements = rank + rope
        else:
            head = m.get("head_dim") or hidden // m["heads"]
            attention = 2 * hidden * head * (m["heads"] + m["kv_heads"])
            elements = 2 * max(m["kv_heads"] / self.heads, 1) * head
        feed_forward = 3 * hidden * m["ffn_hidden"]
        if self.mixture:
            share = (m.get("dense_layers") or 0) / m["layers"]
            one = 3 * hidden * m["expert_ffn_hidden"]
            routed = one * (m["experts"] + (m.get("shared_experts") or 0)) + hidden * m["experts"]
            feed_forward = share * feed_forward + (1 - share) * routed
        matrices = m["layers"] * (attention * self.groups + feed_forward) * BYTES[self.weights]
        copies = 1 if m.get("tied_embeddings") else 2
        held = (matrices + 2 * copies * m["vocab"] * hidden) / self.gpus + 2e9
        sequence = (length + 8) * m["layers"] * elements * BYTES[self.cache]
        return max((0.9 * SHEET[self.gpu][2] * 2**20 - held) / sequence, 1)


# What is fitted, what is thought of it before, and how far it may go: factors of kernels, microseconds of a layer, of norms of
# queries and keys in it, of one with an index and of each token of a prompt in that, milliseconds of a pass and of a request, passes that a new request waits for, and how
# many users stay in step where all requests are equally long (SGLang reads all prompts before it goes on writing: all of them).
PRIOR = {
    "products": (1, 0.25),
    "experts": (1, 0.25),
    "attention": (1, 0.25),
    "collectives": (1, 0.3),
    "layer": (6, 8),
    "norms": (8, 8),
    "host": (1, 1),
    "prompt": (1, 0.2),
    "request": (20, 25),
    "passes": (1, 1),
    "in_step": (8, 20),
    "index": (0, 40),
    "index_token": (0, 0.4),
}
PARTS = ("products", "experts", "attention", "collectives", "elements")


class Runs:
    """Rows of inferencex.csv as columns, with the seconds of their kernels."""

    def __init__(self, rows):
        replicas = [Replica(row) for row in rows]

        def column(of):
            return np.array([of(replica, row) for replica, row in zip(replicas, rows)])

        def number(name):
            return column(lambda _, row: float(row[name]))

        self.engine, self.pair = column(lambda _, row: row["engine"]), column(lambda _, row: row["model"] + " " + row["gpu"])
        self.layers = column(lambda replica, _: replica.model["layers"])
        self.indexed = column(lambda replica, _: replica.latent and bool(replica.model.get("window_tokens")))
        self.normed = column(lambda replica, _: "query_key_norm" in replica.model)
        self.users = number("users") / number("attention_groups")
        self.length, self.answer = number("prompt_tokens"), number("answer_tokens")
        self.scattered, self.requests_each, self.held = number("scattered"), number("requests_each"), number("held_passes")
        self.first, self.each = number("first_token_ms") / 1e3, number("per_token_ms") / 1e3
        self.room = column(lambda replica, row: replica.room(int(row["prompt_tokens"]), int(row["answer_tokens"])))
        prompts = [replica.prompt(int(row["prompt_tokens"])) for replica, row in zip(replicas, rows)]
        self.prompt = {part: np.array([prompt[part] for prompt in prompts]) for part in PARTS}
        # Of many that are read together in full passes.
        shared = [replica.prompt(int(row["prompt_tokens"]), CHUNK) for replica, row in zip(replicas, rows)]
        self.shared = {part: np.array([prompt[part] for prompt in shared]) for part in PARTS}
        # Passes over a few numbers of sequences, and between them along a line.
        most = np.minimum(self.users, self.room)
        self.at = np.stack([np.maximum(most * share, 1) for share in (0.5, 0.75, 0.9, 1)], 1)
        context = self.length + self.answer / 2
        passes = [[replica.a_pass(one, long) for one in at] for replica, at, long in zip(replicas, self.at, context)]
        self.passes = {part: np.array([[one[part] for one in four] for four in passes]) for part in PARTS}

    def of(self, where):
        """The same of some rows."""
        some = object.__new__(Runs)
        for name, value in vars(self).items():
            one = {part: column[where] for part, column in value.items()} if isinstance(value, dict) else value[where]
            setattr(some, name, one)
        return some


def predict(runs, factors):
    """Mean time to the first token and between tokens (`Flow::closed_loop`)."""
    factors = {name: max(value, 0) for name, value in factors.items()}
    layer = factors["layer"] + runs.indexed * factors["index"] + runs.normed * factors["norms"]
    beside = runs.layers * layer * 1e-6 + factors["host"] * 1e-3
    kernels = sum(factors.get(part, 1) * runs.passes[part] for part in PARTS)
    indexed = runs.layers * runs.indexed * factors["index_token"] * 1e-6 * runs.length
    alone, shared = (
        factors["prompt"] * sum(factors.get(part, 1) * parts[part] for part in PARTS) + indexed
        for parts in (runs.prompt, runs.shared)
    )
    prompt = alone + beside * np.ceil(runs.length / CHUNK)
    shared = shared + beside * runs.length / CHUNK
    running = np.minimum(runs.users, runs.room)
    others = np.maximum(running - 1, 0)
    in_step = np.where(runs.engine == "sglang", np.inf, factors["in_step"])
    together = np.where(runs.scattered == 1, 0, np.minimum(others, in_step)) * prompt / 2
    all_at_once = others * prompt / 2
    row, batch, reading = np.arange(len(running)), running, prompt
    for _ in range(16):
        place = np.clip(batch, runs.at[:, 0], runs.at[:, -1])
        above = np.clip((runs.at < place[:, None]).sum(1), 1, 3)
        low, high = runs.at[row, above - 1], runs.at[row, above]
        share = np.where(high > low, (place - low) / np.where(high > low, high - low, 1), 0)
        each_pass = kernels[row, above - 1] * (1 - share) + kernels[row, above] * share + beside
        steady = np.maximum(together, reading - prompt)
        wait = all_at_once / runs.requests_each + (1 - 1 / runs.requests_each) * steady
        first = prompt + factors["request"] * 1e-3 + (factors["passes"] + runs.held) * each_pass + wait
        each = each_pass + np.maximum(others * prompt - wait, 0) * (shared / prompt) / runs.answer
        rate = running / (first + runs.answer * each)
        queue = np.maximum(rate * reading - rate * prompt / 2, 0)
        reading = (reading + prompt * (1 + others / running * queue)) / 2
        batch = (batch + rate * runs.answer * each) / 2
    return first + (runs.users - running) / rate, each


def ratios(runs, factors):
    first, each = predict(runs, factors)
    measured = runs.first + runs.answer * runs.each
    return np.stack([measured / (first + runs.answer * each), first / runs.first, each / runs.each], 1)


def fit(runs):
    """Every pair of model and GPU counts the same; runs far off count no more than by a factor of 1.5."""
    _, at, count = np.unique(runs.pair, return_inverse=True, return_counts=True)
    weight, importance, most = count[at] ** -0.5, np.array([1, 0.35, 1]), np.array([0.4, 0.6, 0.4])

    def misses(values):
        factors = dict(zip(PRIOR, values))
        found = weight[:, None] * importance * np.clip(np.log(ratios(runs, factors)), -most, most)
        prior = [0.175 * (factors[name] - mean) / width for name, (mean, width) in PRIOR.items()]
        return np.concatenate([found.ravel(), prior])

    solved = least_squares(misses, [mean for mean, _ in PRIOR.values()], diff_step=1e-2, max_nfev=25)
    return dict(zip(PRIOR, solved.x))


def by_version(runs, versions, found):
    """Ratios with a factor for each version of an engine, from the other pairs that ran on it: their medians, pulled to 1 by one more pair.

    The version is no key of the program as long as this makes the errors larger."""
    logs, better = np.log(found), np.log(found)
    for engine, pair, version in sorted(set(zip(runs.engine, runs.pair, versions))):
        same = (runs.engine == engine) & (versions == version)
        others = [np.median(logs[same & (runs.pair == one)], 0) for one in np.unique(runs.pair[same]) if one != pair]
        if others:
            better[same & (runs.pair == pair)] -= np.sum(others, 0) / (len(others) + 1)
    return np.exp(better)


def main():
    names = ["inferencex.csv"] + ["contradicting.csv"] * ("--contradicting" in sys.argv)
    rows = [row for name in names for row in csv.DictReader(open(ROOT / "benchmarks/serving" / name))]
    runs = Runs(rows)
    found = np.ones((len(runs.pair), 3))
    for engine in ("tensorrt-llm", "vllm", "sglang"):
        own = runs.engine == engine
        factors = fit(runs.of(own))
        print(engine, {name: round(float(value), 2) for name, value in factors.items()})
        if "--left-out" not in sys.argv:
            found[own] = ratios(runs.of(own), factors)
            continue
        for pair in np.unique(runs.pair[own]):
            judged = own & (runs.pair == pair)
            found[judged] = ratios(runs.of(judged), fit(runs.of(own & (runs.pair != pair))))
    if "--versions" in sys.argv:
        found = by_version(runs, np.array([row["version"] for row in rows]), found)
    # More than all of it: prompts came out of a cache, or the source miscounted.
    products = sum(runs.shared[part] for part in ("products", "experts", "attention"))
    read = runs.users * products / (runs.first + runs.answer * runs.each)
    print(f"kernels of prompts alone take at most {100 * read.max():.0f} % of a run")
    errors = 100 * np.abs(found - 1)
    pairs = np.unique(runs.pair)
    means = np.stack([errors[runs.pair == pair].mean(0) for pair in pairs])
    for pair, error in zip(pairs, means):
        print(pair, (runs.pair == pair).sum(), *(f"{one:.0f}" for one in error))
    for at, name in enumerate(("tokens/s", "first token", "per token")):
        print(
            f"{name}: mean {errors[:, at].mean():.1f} %, median {np.median(errors[:, at]):.1f} %,",
            f"mean of pairs {means[:, at].mean():.1f} %, median of pairs {np.median(means[:, at]):.1f} %",
        )
    print(f"80 % of tokens/s are within a factor of {math.exp(np.quantile(np.abs(np.log(found[:, 0])), 0.8)):.2f}")


if __name__ == "__main__":
    main()
