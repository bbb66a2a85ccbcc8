"""Plan GPU runs from Python: which cloud GPUs to rent, how many, where, what the finished run costs and when it ends.

    import gpuplan

    plan = gpuplan.plan(model="llama-3.1-8b", task="lora", tokens="50M", deadline="2d")
    print(plan.recommendation.instance_type, plan.recommendation.cost_usd.expected)

Each function runs a command of the program `gpuplan`, which comes with this package, and gives its JSON as an object
(docs/schema). Keywords are the options of the command: `gpuplan plan --help` lists them.
"""

from __future__ import annotations

import os

from .checkpoint import Checkpoints, checkpointing
from .documents import Budget, Estimate, Explanation, Plan, PlanRecord, Prices, ProcessingPlan, Status
from .program import GpuplanError, document, options, run, told
from .record import Document, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .program import Value

    Path = str | os.PathLike[str]

__all__ = [
    "Budget",
    "Checkpoints",
    "Document",
    "Estimate",
    "Explanation",
    "GpuplanError",
    "Launch",
    "Plan",
    "PlanRecord",
    "Prices",
    "ProcessingPlan",
    "Record",
    "Status",
    "budget",
    "checkpointing",
    "estimate",
    "explain",
    "launch",
    "load",
    "plan",
    "plan_processing",
    "prices",
    "status",
]


def plan(
    workload: Path | None = None,
    *,
    model: str | None = None,
    task: str | None = None,
    tokens: str | int | None = None,
    deadline: str | None = None,
    budget: str | float | None = None,
    gpus: str | list[str] | None = None,
    cloud: str | list[str] | None = None,
    region: str | list[str] | None = None,
    set_: dict[str, str | float | bool] | None = None,
    **more: Value,
) -> Plan:
    """What to rent for a workload file, for what the keywords say, or for a file with keywords laid over it."""
    asked = {"model": model, "task": task, "tokens": tokens, "deadline": deadline, "budget": budget, "gpus": gpus, "cloud": cloud}
    return Plan(document(["plan", *_file(workload), *options({**asked, "region": region, "set": set_, **more})]))


def plan_processing(workload: Path, **more: Value) -> ProcessingPlan:
    """Machines without GPU for the data processing that a workload file describes (`[processing]`)."""
    return ProcessingPlan(document(["plan", *_file(workload), *options(more)]))


def explain(workload: Path | Plan, plan: str | PlanRecord | None = None, **more: Value) -> Explanation:
    """One plan in full (a plan of the list, its id, a GPU or a region): time, memory, bill, and why it was not recommended."""
    name = plan.id if isinstance(plan, PlanRecord) else plan
    words = options({"plan": name, **more})
    if isinstance(workload, Plan):
        return Explanation(document(["explain", "-", *words], workload.to_json()))
    return Explanation(document(["explain", *_file(workload), *words]))


def estimate(workload: Path | None = None, *, gpus: str | None = None, **more: Value) -> Estimate:
    """Step time, throughput and memory on these GPUs (`gpus="H100:8"`), each as a band; no prices."""
    return Estimate(document(["estimate", *_file(workload), *options({"gpus": gpus, **more})]))


def prices(gpus: str | None = None, **more: Value) -> Prices:
    """All offers, cheapest first: `gpus="H100:8"`, `cloud="aws"`, `spot=True`, `live=True`."""
    named = [] if gpus is None else [gpus]
    return Prices(document(["prices", *options(more), *named]))


def budget(portfolio: Path | Plan, **more: Value) -> Budget:
    """What many runs cost by month and team: of a portfolio file, a workload file, or a plan."""
    if isinstance(portfolio, Plan):
        return Budget(document(["budget", "-", *options(more)], portfolio.to_json()))
    return Budget(document(["budget", *_file(portfolio), *options(more)]))


def status(run: str | None = None) -> Status:
    """Runs that were launched from here: state, machines, progress, what they have cost."""
    return Status(document(["status", *([] if run is None else [run])]))


class Launch:
    """A run that was launched, or what a launch would rent."""

    def __init__(self, run: str | None, told: str) -> None:
        self.run, self.told = run, told

    def status(self) -> Status:
        if self.run is None:
            raise ValueError("nothing was launched; launch(..., yes=True) does it")
        return status(self.run)

    def __repr__(self) -> str:
        return self.told if self.run is None else f"Launch(run={self.run!r})\n{self.told}"


def launch(plan: Plan | Path, command: list[str], *, yes: bool = False, cloud: str | None = None, **more: Value) -> Launch:
    """Rents the machines of a plan and runs the command there, led in the background.

    Nothing is rented without `yes=True`: until then the answer says what would be, and what it costs at worst.
    `cloud="fake"` rehearses on this computer for nothing.
    """
    if isinstance(command, str):
        raise TypeError('`command` is a list of words, such as ["python", "train.py"]')
    words = ["launch", *(["-"] if isinstance(plan, Plan) else _file(plan)), *options({"cloud": cloud, **more})]
    stdin = plan.to_json() if isinstance(plan, Plan) else None
    if not yes:
        return Launch(None, told([*words, "--dry-run", "--", *command], stdin).strip())
    from .program import finished

    name, said = finished([*words, "--yes", "--detach", "--", *command], stdin)
    return Launch(name.strip(), said.strip())


def load(path: Path) -> Plan | Budget:
    """A plan or a budget that was saved, by this package or with `--output json`."""
    import json

    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    return Plan(data) if "recommendation" in data else Budget(data)


def _file(path: Path | None) -> list[str]:
    if path is None:
        return []
    text = os.fspath(path)
    # A name that begins with a hyphen is a file all the same.
    return [os.path.join(".", text) if text.startswith("-") else text]
