#!/usr/bin/env python3
"""Whether an engine's own parser takes a file: check.py ENGINE FILE. Ends with 1 and says why where it does not."""

import json
import os
import sys


def kubernetes(path):
    """Core kinds by kubernetes-validate, strictly; kinds of JobSet and Kueue by crds.json, their pods by the core Job."""
    import jsonschema
    import kubernetes_validate
    import yaml

    with open(os.path.join(os.path.dirname(__file__), "crds.json")) as file:
        crds = json.load(file)
    version = "1.37"
    for document in yaml.safe_load_all(open(path)):
        kind = f"{document['apiVersion']} {document['kind']}"
        if kind in crds:
            jsonschema.validate(document, crds[kind])
            for job in document["spec"].get("replicatedJobs", []):
                inner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": job["template"]["spec"]}
                kubernetes_validate.validate(inner, version, strict=True)
        else:
            kubernetes_validate.validate(document, version, strict=True)


def skypilot(path):
    import sky

    sky.Task.from_yaml(path)


def dstack(path):
    import yaml
    from dstack._internal.core.models.configurations import parse_run_configuration

    parse_run_configuration(yaml.safe_load(open(path)))


def accelerate(path):
    from accelerate.commands.config.config_args import ClusterConfig

    config = ClusterConfig.from_yaml_file(path)
    if config.fsdp_config:
        known = {"fsdp_sharding_strategy": ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")}
        for key, values in known.items():
            assert config.fsdp_config[key] in values, key


def deepspeed(path):
    """The configuration that transformers and Accelerate start DeepSpeed from reads it; DeepSpeed's own reads each part."""
    from deepspeed.runtime.zero.config import get_zero_config

    with open(path) as file:
        config = json.load(file)
    known = {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "zero_optimization", "bf16", "fp16", "compile"}
    # `_comment` is the head; DeepSpeed passes over keys that it has no use for.
    unknown = set(config) - known - {"activation_checkpointing", "_comment"}
    assert not unknown, unknown
    get_zero_config(config)


def torchtitan(path):
    """The words behind `torchtitan.train` in a script, by the manager that the program itself asks."""
    import shlex

    from torchtitan.config.manager import ConfigManager

    line = next(line for line in open(path) if "torchtitan.train" in line)
    words = shlex.split(line)
    ConfigManager().parse_args(words[words.index("torchtitan.train") + 1 :])


def served(path, package, files, program):
    """Flags behind `program` against those that the sources of an engine's argument parser name. The engines themselves need a GPU, or
    gigabytes of libraries, to be imported."""
    import shlex

    words = [word for line in open(path) if program in line for word in shlex.split(line.rstrip("\\\n"))]
    more = [word for line in open(path) if "--nnodes" in line for word in shlex.split(line)]
    known, texts = flags_of_sources(package, files)
    flags = [word.split("=")[0] for word in words + more if word.startswith("--")]
    assert flags, "no flag is said"
    unknown = [flag for flag in flags if flag not in known]
    assert not unknown, unknown
    for flag, value in zip(words, words[1:]):
        if flag in ("--quantization", "--kv-cache-dtype"):
            assert value in texts, (flag, value)


def flags_of_sources(package, files):
    """Flags that the sources of a package's argument parser name, and every other text in them."""
    import ast
    import importlib.metadata

    known, texts = set(), set()
    folder = importlib.metadata.distribution(package)
    for file in files:
        for node in ast.walk(ast.parse(folder.locate_file(file).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                (known if node.value.startswith("--") else texts).add(node.value)
            # A field of a class of arguments is a flag.
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                known.add("--" + node.target.id.replace("_", "-"))
    return known, texts


def behind_program(path, last):
    """The words behind the program of a script's `torchrun`."""
    import shlex

    line = next(line for line in open(path) if "torchrun" in line and last in line)
    words = shlex.split(line)
    return words[words.index(last) + 1 :]


def megatron(path):
    """Arguments against the sources of Megatron-LM's parser, which megatron-core has had in its package since 0.19. Further arguments are the
    fields of the classes that it makes groups of."""
    fields = existing(
        "megatron-core",
        "megatron/training/arguments.py",
        "megatron/training/config/*.py",
        "megatron/core/transformer/transformer_config.py",
        "megatron/core/model_parallel_config.py",
    )
    known, texts = flags_of_sources("megatron-core", fields)
    assert len(known) > 500, "the package has no parser"
    words = behind_program(path, "train.py")
    flags = [word for word in words if word.startswith("--")]
    unknown = [flag for flag in flags if flag not in known]
    assert flags and not unknown, unknown
    for flag, value in zip(words, words[1:]):
        if flag in ("--ckpt-format", "--data-parallel-sharding-strategy", "--recompute-granularity"):
            assert value in texts, (flag, value)


def lightning(path):
    """Arguments by LightningCLI itself, for a model of its own examples; nothing is made of them."""
    from lightning.pytorch.cli import LightningCLI
    from lightning.pytorch.demos.boring_classes import BoringDataModule, DemoModel

    class Data(BoringDataModule):
        def __init__(self, batch_size: int = 1, num_workers: int = 0):
            super().__init__()

    class Cli(LightningCLI):
        def instantiate_classes(self):
            pass

    Cli(DemoModel, Data, run=False, args=behind_program(path, "fit"))


def existing(package, *patterns):
    """Files of a package under the places that its releases have had them in."""
    import glob
    import importlib.metadata

    folder = str(importlib.metadata.distribution(package).locate_file("."))
    return [file for pattern in patterns for file in glob.glob(pattern, root_dir=folder)]


def vllm(path):
    files = ["vllm/engine/arg_utils.py", "vllm/config/cache.py", "vllm/model_executor/layers/quantization/__init__.py"]
    # The server's own arguments are `common` in 0.33.
    server = existing("vllm", "vllm/entrypoints/openai/cli_args.py", "vllm/entrypoints/common/cli_args.py")
    assert server, "no file has the arguments of the server"
    served(path, "vllm", files + server, "vllm serve")


def sglang(path):
    # Of 0.5.23 the arguments are the fields of several classes.
    fields = existing("sglang", "sglang/srt/arg_groups/fields/*.py", "sglang/srt/arg_groups/choices.py")
    served(path, "sglang", ["sglang/srt/server_args.py", *fields], "sglang.launch_server")


def recipe(path, folders, more=()):
    """Keys of a configuration against the fields of the classes that read it. The programs themselves need gigabytes to be imported."""
    import ast
    import glob
    import importlib.metadata

    import yaml

    known = set(more)
    for package, pattern in folders:
        for file in glob.glob(str(importlib.metadata.distribution(package).locate_file(pattern))):
            for node in ast.walk(ast.parse(open(file).read())):
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    known.add(node.target.id)
    config = yaml.safe_load(open(path))
    unknown = [key for key in config if key not in known]
    assert len(known) > 50 and not unknown, unknown


TRAINER = [("transformers", "transformers/training_args.py")]


def axolotl(path):
    recipe(path, [("axolotl", "axolotl/utils/schemas/*.py")])


def llama_factory(path):
    recipe(path, TRAINER + [("llamafactory", "llamafactory/hparams/*.py")])


def trl(path):
    recipe(path, TRAINER + [("trl", "trl/trainer/*config.py"), ("trl", "trl/scripts/utils.py")])


def ray(path):
    """Its imports are there, and every name that it uses."""
    import ast
    import importlib

    tree = ast.parse(open(path).read())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name), name.name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ray":
            assert hasattr(importlib.import_module("ray"), node.attr), node.attr


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](sys.argv[2])
    except Exception as error:
        print(f"{type(error).__name__}: {error}"[:2000], file=sys.stderr)
        sys.exit(1)
