"""The shapes of a calibration with PyTorch, and a training step of a small decoder, against what gpuplan says of them.

    on_gpu.py FIRST.json SECOND.json PREDICTED.json OUT.json

FIRST and SECOND are two calibrations of this card, PREDICTED is `gpuplan estimate benchmarks/decoder.toml` with the first of
them. Prints a table, writes OUT.json and ends with 1 where a limit is passed. Limits, as docs/measure.md has them: a product
within 3 % of the better of the two, the best memory stream within 3 % of the best copy of PyTorch, the step within 10 % of the
prediction.
"""

import json
import statistics
import sys

import torch
import torch.nn.functional as F

REPEATS = 9
LEAST_SECONDS = 0.02
PRODUCT_LIMIT, STREAM_LIMIT, STEP_LIMIT = 0.03, 0.03, 0.10


def seconds_of(call):
    """Median seconds of a call: warm, then REPEATS samples of as many calls as fill LEAST_SECONDS."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(calls):
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / calls

    sample(3)
    calls = max(1, min(20000, int(LEAST_SECONDS / max(sample(1), 1e-7))))
    return statistics.median(sample(calls) for _ in range(REPEATS))


def product(work):
    """The call for one product, with operands as a framework has them; None for formats that are not compared."""
    m, n, k = work["m"], work["n"], work["k"]
    types = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    kind = types.get(work["format"])
    if kind is None:
        return None
    torch.backends.cuda.matmul.allow_tf32 = work["format"] == "tf32"
    random = lambda rows, columns: torch.randn(rows, columns, device="cuda").to(kind)
    if work["pass"] == "forward":
        x, weight = random(m, k), random(n, k)
        return lambda: F.linear(x, weight)
    if work["pass"] == "input-gradient":
        gradient, weight = random(m, k), random(k, n)
        return lambda: gradient @ weight
    x, gradient = random(k, m), random(k, n)
    return lambda: x.t() @ gradient


class Layer(torch.nn.Module):
    def __init__(self, hidden, ffn, heads):
        super().__init__()
        linear = lambda inputs, outputs: torch.nn.Linear(inputs, outputs, bias=False)
        self.heads = heads
        self.before, self.between = torch.nn.RMSNorm(hidden), torch.nn.RMSNorm(hidden)
        self.qkv, self.out = linear(hidden, 3 * hidden), linear(hidden, hidden)
        self.gate, self.up, self.down = linear(hidden, ffn), linear(hidden, ffn), linear(ffn, hidden)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, hidden))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(torch.nn.Module):
    """The model of benchmarks/decoder.toml."""

    def __init__(self, layers=16, hidden=2048, heads=16, ffn=5632, vocab=32000):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocab, hidden)
        self.layers = torch.nn.ModuleList(Layer(hidden, ffn, heads) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(hidden)
        self.head = torch.nn.Linear(hidden, vocab, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def step_seconds(batch=4, length=2048, vocab=32000):
    """Median of 20 steps after 5: bf16 weights with an fp32 master copy, AdamW."""
    torch.manual_seed(0)
    model = Decoder(vocab=vocab).cuda().to(torch.bfloat16)
    masters = [p.detach().float().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1e-4, fused=True)
    tokens = torch.randint(vocab, (batch, length + 1), device="cuda")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(25):
        begin.record()
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.float().view(-1, vocab), tokens[:, 1:].reshape(-1)).backward()
        for master, parameter in zip(masters, model.parameters()):
            master.grad = parameter.grad.float()
        optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters()):
                parameter.copy_(master)
        model.zero_grad(set_to_none=True)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times[5:])


def best_copy(size=1 << 30):
    """Bytes a second of PyTorch's own copy, read and write."""
    source, target = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    return 2 * size / seconds_of(lambda: target.copy_(source))


def main():
    first, second, predicted = (json.load(open(path)) for path in sys.argv[1:4])
    rows, failures = [], []
    again = {json.dumps(r["benchmark"]["work"], sort_keys=True): r["statistics"]["median_seconds"] for r in second["results"]}
    for result in first["results"]:
        work, own = result["benchmark"]["work"], result["statistics"]["median_seconds"]
        if work["kind"] != "matmul":
            continue
        call = product(work)
        if call is None:
            continue
        torch_seconds = seconds_of(call)
        better = min(own, torch_seconds)
        row = {"name": result["benchmark"]["name"], "work": work, "gpuplan_seconds": own, "torch_seconds": torch_seconds,
               "off": own / better - 1, "repeat": again.get(json.dumps(work, sort_keys=True), own) / own - 1}
        rows.append(row)
        print(f"{row['name'][:44]:44} {work['m']:6} {work['n']:6} {work['k']:6} {work['format']:5} "
              f"{own * 1e6:10.1f} us  torch {torch_seconds * 1e6:10.1f} us  {row['off']:+6.1%}  repeated {row['repeat']:+6.1%}")
        if row["off"] > PRODUCT_LIMIT:
            failures.append(f"{row['name']} is {row['off']:.1%} slower than PyTorch")
        torch.cuda.empty_cache()
    streams = [r for r in first["results"] if r["benchmark"]["work"]["kind"] == "stream" and r["benchmark"]["work"]["writes"]]
    own_copy = max((2 * r["benchmark"]["work"]["bytes"] / r["statistics"]["median_seconds"] for r in streams), default=0.0)
    copy = best_copy()
    print(f"copy of memory: gpuplan {own_copy / 1e9:.0f} GB/s, torch {copy / 1e9:.0f} GB/s")
    if own_copy < copy * (1 - STREAM_LIMIT):
        failures.append(f"the memory stream is {1 - own_copy / copy:.1%} under PyTorch's copy")
    torch.cuda.empty_cache()
    step, expected = step_seconds(), predicted["step_seconds"]["expected"]
    print(f"decoder step: measured {step * 1e3:.1f} ms, predicted {expected * 1e3:.1f} ms ({expected / step - 1:+.1%})")
    if abs(expected / step - 1) > STEP_LIMIT:
        failures.append(f"the predicted step is off by {expected / step - 1:+.1%}")
    out = {"version": 1, "kind": "torch-comparison", "torch": torch.__version__, "cuda": torch.version.cuda,
           "gpu": torch.cuda.get_device_name(), "products": rows, "copy_bytes_per_second": {"gpuplan": own_copy, "torch": copy},
           "step_seconds": {"measured": step, "predicted": predicted["step_seconds"]}, "failures": failures}
    json.dump(out, open(sys.argv[4], "w"), indent=1)
    for failure in failures:
        print(f"OUTSIDE ITS LIMIT: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
