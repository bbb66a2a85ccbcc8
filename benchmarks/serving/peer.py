#!/usr/bin/env python3
"""Asks aiconfigurator and gpuplan's model about the same published runs (inferencex.csv), and says how far off each is.

    pip install aiconfigurator numpy scipy zstandard
    benchmarks/serving/peer.py [--every N]   # of each model, GPU, engine, format and layout, every Nth run; minutes for all

gpuplan answers as fit.py does with the pair of model and GPU left out. aiconfigurator is told the split, the formats and the number of
users of a run (`cli_estimate`, mode agg, newest tables of the engine) and left alone with the rest. It has tables of the same GPUs,
and its authors have seen these runs. A run is judged where both answer; classes have twenty such runs at least.
"""

import collections
import contextlib
import csv
import io
import logging
import pathlib
import sys

import fit
import numpy as np

HUB = {
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "glm-5": "zai-org/GLM-5",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "kimi-k2": "moonshotai/Kimi-K2-Instruct",
    "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
    "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
    "minimax-m2": "MiniMaxAI/MiniMax-M2.5",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen3-32b": "Qwen/Qwen3-32B",
}
SYSTEM = {
    "h100-sxm5-80": "h100_sxm",
    "h200-sxm-141": "h200_sxm",
    "b200-sxm-180": "b200_sxm",
    "b300-sxm-288": "b300_sxm",
    "gb200-186": "gb200",
}
BACKEND = {"tensorrt-llm": "trtllm", "vllm": "vllm", "sglang": "sglang"}
# Formats of products and of experts, as aiconfigurator names them.
FORMATS = {
    "bf16": ("bfloat16", "bfloat16"),
    "fp8": ("fp8", "fp8"),
    "nvfp4": ("nvfp4", "nvfp4"),
    "int4": ("bfloat16", "int4_wo"),
}


def asked(row):
    """What `cli_estimate` is told of a run."""
    gpus, groups, dealt_out = int(row["gpus"]), int(row["attention_groups"]), row["expert_parallel"] == "1"
    mixture = fit.MODELS[row["model"]]["kind"] == "moe"
    products, experts = FORMATS.get(row["weights"], (None, None))
    if row["weights"] == "fp8" and mixture:
        products = experts = "fp8_block"
    if row["weights"] == "mxfp4":
        products, experts = "bfloat16", "w4a8_mxfp4_mxfp8" if row["gpu"] in fit.FP4 else "w4a16_mxfp4"
    more = {"moe_tp_size": 1 if dealt_out else gpus, "moe_ep_size": gpus if dealt_out else 1} if mixture else {}
    return {
        "model_path": HUB[row["model"]],
        "system_name": SYSTEM[row["gpu"]],
        "backend_name": BACKEND[row["engine"]],
        "isl": int(row["prompt_tokens"]),
        "osl": int(row["answer_tokens"]),
        "batch_size": max(int(row["users"]) // groups, 1),
        "tp_size": gpus // groups,
        "attention_dp_size": groups,
        "gemm_quant_mode": products,
        "kvcache_quant_mode": "bfloat16" if row["kv_cache"] == "bf16" else "fp8",
        "moe_quant_mode": experts if mixture else None,
        **more,
    }


def of_peer(rows):
    """Seconds to the first token and a token, or None where it does not answer; and why not."""
    from aiconfigurator.cli.api import cli_estimate

    logging.disable(logging.CRITICAL)
    answers, reasons = [], collections.Counter()
    for row in rows:
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                said = cli_estimate(**asked(row))
            answers.append((said.ttft / 1e3, said.tpot / 1e3))
        except Exception as error:  # whatever it refuses with
            answers.append(None)
            reasons[f"{row['model']} {row['gpu']} {row['engine']} {row['weights']}: {str(error)[:90]}"] += 1
    return answers, reasons


def ours(rows):
    """The same by fit.py, with the pair left out."""
    runs = fit.Runs(rows)
    found = np.ones((len(rows), 2))
    for engine in np.unique(runs.engine):
        own = runs.engine == engine
        for pair in np.unique(runs.pair[own]):
            judged = own & (runs.pair == pair)
            factors = fit.fit(runs.of(own & (runs.pair != pair)))
            found[judged] = np.stack(fit.predict(runs.of(judged), factors), 1)
    return found


def errors(rows, answers):
    """Of tokens a second, first token and time a token, in per cent."""
    first, each, tokens = (np.array([float(row[name]) for row in rows]) for name in ("first_token_ms", "per_token_ms", "answer_tokens"))
    first, each = first / 1e3, each / 1e3
    rate = (first + tokens * each) / (answers[:, 0] + tokens * answers[:, 1])
    return 100 * np.abs(np.stack([rate, answers[:, 0] / first, answers[:, 1] / each], 1) - 1)


def main():
    with open(pathlib.Path(__file__).parent / "inferencex.csv") as file:
        rows = list(csv.DictReader(file))
    own = ours(rows)
    every, seen, kept = int(sys.argv[2]) if "--every" in sys.argv else 1, collections.Counter(), []
    for at, row in enumerate(rows):
        key = tuple(row[name] for name in ("model", "gpu", "engine", "weights", "gpus", "attention_groups", "prompt_tokens"))
        if seen[key] % every == 0:
            kept.append(at)
        seen[key] += 1
    said, reasons = of_peer([rows[at] for at in kept])
    both = [(at, answer) for at, answer in zip(kept, said) if answer is not None]
    judged = [rows[at] for at, _ in both]
    print(f"asked about {len(kept)} runs; aiconfigurator answers {len(both)}")
    for reason, count in reasons.most_common(12):
        print(f"  {count} x {reason}")
    tables = errors(judged, own[[at for at, _ in both]]), errors(judged, np.array([answer for _, answer in both]))
    classes = {
        "all": lambda _: True,
        **{f"engine {name}": lambda row, name=name: row["engine"] == name for name in BACKEND},
        **{f"GPU {name}": lambda row, name=name: row["gpu"] == name for name in SYSTEM},
        **{f"weights {name}": lambda row, name=name: row["weights"] == name for name in ("bf16", "fp8", "nvfp4", "mxfp4", "int4")},
        **{f"model {name}": lambda row, name=name: row["model"] == name for name in HUB},
        "at most 8 users": lambda row: int(row["users"]) <= 8,
        "over 64 users": lambda row: int(row["users"]) > 64,
        "attention groups": lambda row: row["attention_groups"] != "1",
    }
    print("class | runs | tokens/s: ours, peer | first token | per token   (mean error in %, median in brackets)")
    for name, belongs in classes.items():
        where = np.array([belongs(row) for row in judged])
        if where.sum() < 20:
            continue
        cells = [
            ", ".join(f"{table[where, at].mean():.1f} ({np.median(table[where, at]):.1f})" for table in tables) for at in range(3)
        ]
        print(name, where.sum(), *cells, sep=" | ")


if __name__ == "__main__":
    main()
