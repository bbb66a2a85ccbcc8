"""What a type checker has to accept of the package, and (`warn_unused_ignores`) what it has to refuse."""

from decimal import Decimal

import gpuplan


def use() -> Decimal:
    plan = gpuplan.plan(model="llama-3.1-8b", task="lora", tokens="50M", gpus=["H100:8"], max_nodes=2)
    best = plan.recommendation
    assert best is not None
    nodes: int = best.nodes
    word: str = nodes  # type: ignore[assignment]
    best.no_such_field  # type: ignore[attr-defined]
    for offer in gpuplan.prices("H100:8").offers:
        rate: Decimal = offer.rate_usd_per_hour
        assert rate
    assert word
    with gpuplan.checkpointing(save=lambda folder: None, load=lambda folder: None, every=10) as checkpoints:
        for step in checkpoints.steps(100):
            assert step > 0
    return best.cost_usd.expected


if __name__ == "__main__":
    use()
