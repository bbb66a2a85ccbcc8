#!/usr/bin/env python3
"""Packs measured kernel times into one small table for each GPU (README.md says what they hold).

    pack.py SOURCE TABLES [--leave-out N] [--sample COUNT] [--lines]

SOURCE is the folder of measurements, one folder for each system. Writes TABLES/<gpu>.txt.zst and TABLES/left_out.csv: points
that the tables do not know, by a hash of what they are. Of all points one in N is left out; without --leave-out just as many
as the sample of COUNT points a GPU takes. With --lines whole lines of the grid of matrix products are left out and not points.
The same source gives the same bytes. Needs numpy, pandas, pyarrow and zstandard.
"""

import argparse
import csv
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import zstandard

# A cell is round(ln(microseconds) / STEP): half a step is 1 %.
STEP = 0.02

# Folder of the source to the id of catalogs/gpus.toml.
GPUS = {
    "a100_sxm": "a100-sxm4-80",
    "h100_sxm": "h100-sxm5-80",
    "h200_sxm": "h200-sxm-141",
    "b200_sxm": "b200-sxm-180",
    "b300_sxm": "b300-sxm-288",
    "gb200": "gb200-186",
    "gb300": "gb300-279",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-se",
}

PRECISIONS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8_wo": "int8_weights",
    "int4_wo": "int4_weights",
    "sq": "int8",
    "w4a16_mxfp4": "mxfp4_weights",
    "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8",
}

# Launched one by one and not from a graph: whatever the shape, no point is below 60 to 450 microseconds of host time, where the
# other engine's are below 15. Those are no times of kernels.
HOST_BOUND = ("gemm vllm fp8_block", "mla_context vllm", "mla_decode vllm")

# A kind of table: its two outer axes and the axis that a row runs along.
AXES = {
    "gemm": ("n", "k", "m"),
    "context": ("group", "streams", "length"),
    "encoder": ("group", "streams", "length"),
    "decode": ("group", "streams", "length"),
    "mla_context": ("heads", "batch", "length"),
    "mla_decode": ("heads", "batch", "length"),
    "moe": ("shape", "ep", "tokens"),
    "collective": ("zero", "gpus", "bytes"),
}

# Kinds whose first key is a shape and not a number: nothing lies between two of them.
SHAPES = {"moe"}


def points(folder: Path) -> pd.DataFrame:
    """Every measured point: its table, its shape as the source has it, its place in the table, its microseconds."""
    parts = [frame for reader in (gemms, attention, latent, experts, collectives) for frame in reader(folder)]
    every = pd.concat(parts, ignore_index=True)
    every = every[~every.table.str.startswith(HOST_BOUND)]
    # Where an engine has two kernels for one shape, or was measured twice: the faster one.
    return every.groupby(["table", "shape", "outer", "middle", "along"], sort=True).microseconds.min().reset_index()


def read(folder: Path, name: str):
    """The file of every engine that has one."""
    for engine in ("trtllm", "vllm"):
        path = folder / name.format(engine=engine)
        if path.exists():
            frame = pq.read_table(path).to_pandas()
            if "window_size" not in frame:
                frame["window_size"] = 0
            yield engine, frame[frame.latency > 0]


def text(*columns) -> pd.Series:
    """Columns and words, joined by spaces."""
    length = next(len(column) for column in columns if isinstance(column, pd.Series))
    index = next(column.index for column in columns if isinstance(column, pd.Series))
    whole = pd.Series([""] * length, index=index)
    for number, column in enumerate(columns):
        column = column.astype(str) if isinstance(column, pd.Series) else column
        whole = whole + (" " if number else "") + column
    return whole


def frame(table, shape, outer, middle, along, latency) -> pd.DataFrame:
    columns = {"table": table, "shape": shape, "outer": outer, "middle": middle, "along": along}
    return pd.DataFrame({**columns, "microseconds": latency * 1e3})


def gemms(folder: Path):
    for engine, d in read(folder, "gemm-{engine}-gemm_perf.parquet"):
        table = text(f"gemm {engine}", d.gemm_dtype.map(PRECISIONS))
        yield frame(table, text(d.m, d.n, d.k), d.n, d.k, d.m, d.latency)


def attention(folder: Path):
    for engine, d in read(folder, "attention-{engine}-context_attention_perf.parquet"):
        table = text(
            f"context {engine}", d.attn_dtype.map(PRECISIONS), d.kv_cache_dtype.map(PRECISIONS), d.head_dim, d.window_size
        )
        shape = text(d.batch_size, d.num_heads, d.num_key_value_heads, d.isl)
        # What matters is how many heads of queries there are in all and how many of them share keys and values: the batch
        # and the heads apart change the time by less than 1 % (median).
        group = d.num_heads // d.num_key_value_heads
        yield frame(table, shape, group, d.batch_size * d.num_heads, d.isl, d.latency)
    for engine, d in read(folder, "encoder_attention-{engine}-encoder_attention_perf.parquet"):
        table = text(f"encoder {engine}", d.attn_dtype.map(PRECISIONS), d.head_dim)
        yield frame(table, text(d.batch_size, d.num_heads, d.isl), 1, d.batch_size * d.num_heads, d.isl, d.latency)
    for engine, d in read(folder, "attention-{engine}-generation_attention_perf.parquet"):
        table = text(f"decode {engine}", d.kv_cache_dtype.map(PRECISIONS), d.head_dim, d.window_size)
        length = d.step + d.isl
        shape = text(d.batch_size, d.num_heads, d.num_key_value_heads, length)
        group = d.num_heads // d.num_key_value_heads
        yield frame(table, shape, group, d.batch_size * d.num_key_value_heads, length, d.latency)


def latent(folder: Path):
    for kind, name in (("mla_context", "context"), ("mla_decode", "generation")):
        for engine, d in read(folder, f"mla-{{engine}}-{name}_mla_perf.parquet"):
            table = text(f"{kind} {engine}", d.kv_cache_dtype.map(PRECISIONS))
            length = d.step + d.isl
            yield frame(table, text(d.batch_size, d.num_heads, length), d.num_heads, d.batch_size, length, d.latency)


def experts(folder: Path):
    for engine, d in read(folder, "moe-{engine}-moe_perf.parquet"):
        d = d[d.moe_dtype.isin(PRECISIONS) & d.distribution.isin(["balanced", "power_law_1.2"])]
        if engine == "trtllm":
            # The kernels without a gate are of other models.
            d = d[~d.kernel_source.str.contains("nongated")]
        if d.empty:
            continue
        routing = d.distribution.map({"balanced": "balanced", "power_law_1.2": "skewed"})
        table = text(f"moe {engine}", d.moe_dtype.map(PRECISIONS), routing)
        width = d.inter_size // d.moe_tp_size
        shape = text(d.hidden_size, width, d.topk, d.num_experts)
        yield frame(table, text(d.num_tokens, shape, d.moe_ep_size), shape, d.moe_ep_size, d.num_tokens, d.latency)


OPERATIONS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def collectives(folder: Path):
    path = folder / "comm-nccl-nccl_perf.parquet"
    if path.exists():
        d = pq.read_table(path).to_pandas()
        d = d[(d.nccl_dtype == "half") & d.op_name.isin(OPERATIONS)]
        table = text("collective nccl", d.op_name.map(OPERATIONS))
        size = d.message_size * 2
        yield frame(table, text(d.num_gpus, size), 0, d.num_gpus, size, d.latency)
    for engine, d in read(folder, "comm-{engine}-custom_allreduce_perf.parquet"):
        if "backend" in d:
            # Serving captures its steps in graphs.
            d = d[d.backend.str.contains("graph")]
        size = d.message_size * 2
        table = text(f"collective {engine} all_reduce", pd.Series("", index=d.index)).str.strip()
        yield frame(table, text(d.num_gpus, size), 0, d.num_gpus, size, d.latency)


def neighbours(known, step):
    """Index of the next known cell before (step -1) or after (step 1) every cell of the last axis, -1 where there is none."""
    count = known.shape[-1]
    index = np.where(known, np.arange(count), -1)
    if step < 0:
        found = np.maximum.accumulate(index, axis=-1)
    else:
        index = np.where(index < 0, count, index)
        found = np.minimum.accumulate(index[..., ::-1], axis=-1)[..., ::-1]
        found = np.where(found == count, -1, found)
    edge = np.full(known.shape[:-1] + (1,), -1)
    shifted = (edge, found[..., :-1]) if step < 0 else (found[..., 1:], edge)
    return np.concatenate(shifted, -1)


def between(cells, axes, axis, curved=False):
    """Every cell interpolated between the next known cells before and after it on one axis, both in logarithms: on a straight
    line, or on the monotone cubic that the cells beyond them bend (Fritsch and Butland 1984)."""
    place = np.log(np.maximum(axes[axis].astype(float), 0.5))
    values = np.moveaxis(cells, axis, -1)
    known = ~np.isnan(values)
    before, after = neighbours(known, -1), neighbours(known, 1)
    inside = (before >= 0) & (after >= 0)

    def at(index):
        index = np.maximum(index, 0)
        return place[index], np.take_along_axis(values, index, -1)

    (x0, y0), (x1, y1) = at(before), at(after)
    width = np.where(inside, x1 - x0, 1)
    share = (place - x0) / width
    rise = y1 - y0
    if not curved:
        return np.moveaxis(np.where(inside, y0 + share * rise, np.nan), -1, axis)

    def slope(neighbour, x, y):
        """At a neighbour, in units of `width`: the harmonic mean of the chords on both sides of it."""
        index = np.take_along_axis(neighbour, np.maximum(neighbour, 0), -1)
        (xo, yo), exists = at(index), index >= 0
        chord = np.where(exists, (y - yo) / np.where(x == xo, 1, x - xo), np.nan) * width
        mean = np.where(chord * rise > 0, 2 * chord * rise / np.where(chord + rise == 0, 1, chord + rise), 0)
        return np.where(exists, mean, rise)

    s0, s1 = slope(before, x0, y0), slope(after, x1, y1)
    s, r = share, 1 - share
    cubic = y0 * (1 + 2 * s) * r * r + s0 * s * r * r + y1 * (3 - 2 * s) * s * s - s1 * s * s * r
    return np.moveaxis(np.where(inside, cubic, np.nan), -1, axis)


def filled(cells, axes, directions, curved):
    """Cells that nobody measured, from those around them: the median of what each axis says, and of what each axis says
    corrected by how wrong it is about the neighbours on another one."""
    plain = {axis: between(cells, axes, axis, curved) for axis in directions}
    guesses = list(plain.values())
    for first in directions:
        for second in directions:
            if first != second:
                guesses.append(plain[first] + between(cells - plain[first], axes, second))
    with warnings.catch_warnings():
        # Cells that nobody can guess stay unknown.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.where(np.isnan(cells), np.nanmedian(guesses, axis=0), cells)


def packed(name: str, d: pd.DataFrame) -> list[str]:
    """One table as text: its name, the places along a row, then a row for each pair of outer keys."""
    kind = name.split()[0]
    outer = sorted(d.outer.unique(), key=lambda key: [int(part) for part in str(key).split()])
    middle, along = np.sort(d.middle.unique()), np.sort(d.along.unique())
    places = ({key: place for place, key in enumerate(outer)}, None, None)
    cells = np.full((len(outer), len(middle), len(along)), np.nan)
    where = (d.outer.map(places[0]), np.searchsorted(middle, d.middle), np.searchsorted(along, d.along))
    cells[where] = np.log(d.microseconds)
    exists = ~np.isnan(cells).all(axis=-1)
    if kind in SHAPES:
        axes, directions = (np.arange(len(outer)), middle, along), (1, 2)
    else:
        axes, directions = (np.array(outer), middle, along), tuple(a for a in range(3) if cells.shape[a] > 1)
    whole = filled(cells, axes, directions, curved=kind != "gemm")
    lines = [f"table,{name}", f"axes,{','.join(AXES[kind])}", f"along,{','.join(map(str, along))}"]
    for i, j in np.argwhere(exists):
        row = whole[i, j]
        known = np.flatnonzero(~np.isnan(row))
        first, last = known[0], known[-1]
        # Before the first and between: never without a neighbour on the row, so level or a straight line.
        row = np.interp(np.arange(last + 1), known, row[known])
        codes = np.round(row / STEP).astype(int)
        differences = np.diff(codes, prepend=0)
        keys = str(outer[i]).replace(" ", "x")
        lines.append(f"{keys},{middle[j]},{' '.join(map(str, differences))}")
    return lines


def hashed(gpu: str, d: pd.DataFrame) -> np.ndarray:
    what = gpu + " " + d.table + " " + d["shape"]
    return np.fromiter((zlib.crc32(w.encode()) * 2654435761 % 2**32 for w in what), dtype=np.int64, count=len(d))


def on_left_out_line(gpu: str, d: pd.DataFrame, one_in: int) -> np.ndarray:
    """Points of matrix products whose m, n or k is a line that is left out whole: never the first or last of its axis."""
    out = np.zeros(len(d), dtype=bool)
    gemm = d.table.str.startswith("gemm").to_numpy()
    for axis in ("outer", "middle", "along"):
        inner = sorted(d[axis][gemm].unique())[1:-1]
        lines = [v for v in inner if zlib.crc32(f"{axis} {v}".encode()) % one_in == 0]
        out |= gemm & d[axis].isin(lines).to_numpy()
    return out


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("source", type=Path)
    arguments.add_argument("tables", type=Path)
    arguments.add_argument("--leave-out", type=int)
    arguments.add_argument("--sample", type=int, default=400)
    arguments.add_argument("--lines", action="store_true")
    arguments.add_argument("--gpu")
    options = arguments.parse_args()
    options.tables.mkdir(parents=True, exist_ok=True)
    left_out = []
    for system, gpu in GPUS.items():
        if options.gpu not in (None, gpu):
            continue
        d = points(options.source / system)
        number = hashed(gpu, d)
        if options.lines:
            out = on_left_out_line(gpu, d, options.leave_out or 10)
        else:
            kinds = d.table.str.split().str[0]
            counts = kinds.map(kinds.value_counts())
            # As many points of every kind, whatever its size.
            share = np.minimum(options.sample / kinds.nunique() / counts, 0.05)
            out = number % options.leave_out == 0 if options.leave_out else number < share * 2**32
        # Two points of one cell may differ in batch and heads: both are then known, or the mean of what is left.
        cell = ["table", "outer", "middle", "along"]
        kept = d[~out].assign(microseconds=np.log(d.microseconds)).groupby(cell, sort=True).microseconds.mean()
        kept = np.exp(kept).reset_index()
        lines = [f"gpu,{gpu}", f"step,{STEP}"]
        for name, group in kept.groupby("table", sort=True):
            lines += packed(name, group)
        content = zstandard.ZstdCompressor(level=22).compress("\n".join(lines + [""]).encode())
        (options.tables / f"{gpu}.txt.zst").write_bytes(content)
        print(f"{gpu}: {len(d)} points, {len(kept)} cells, {out.sum()} left out, {len(content) / 1e3:.0f} kB", flush=True)
        rest = d[out]
        order = np.argsort(number[out], kind="stable")[: 40000 if options.leave_out else len(rest)]
        left_out += [(gpu, *row) for row in rest.iloc[order][["table", "shape", "microseconds"]].itertuples(index=False)]
    with open(options.tables / "left_out.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["gpu", "table", "shape", "microseconds"])
        writer.writerows((gpu, table, shape, f"{float(value):.4g}") for gpu, table, shape, value in left_out)


if __name__ == "__main__":
    main()
