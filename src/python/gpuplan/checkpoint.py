"""Checkpoints of a training loop where `gpuplan agent` looks for them: saved whole or not at all, resumed, on notice saved at once.

    with gpuplan.checkpointing({"model": model, "optimizer": optimizer}, every=500) as checkpoints:
        for step in checkpoints.steps(10_000):
            train(step)

It keeps the contract of docs/agent.md: saves into $GPUPLAN_CKPT_DIR, resumes from $GPUPLAN_RESUME_FROM, writes the step to
$GPUPLAN_PROGRESS_FILE, and when the machine is about to be taken (SIGTERM, or $GPUPLAN_NOTICE_FILE appears) saves after the step that
runs and exits with 75. Without an agent it saves to `checkpoints/` and resumes from the newest there. PyTorch is used where it is imported
already, and not needed.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Callable, Iterator, Mapping, Protocol

    class Stateful(Protocol):
        """A model, an optimizer, a scheduler, a sampler."""

        def state_dict(self) -> Any: ...
        def load_state_dict(self, state: Any, /) -> Any: ...

    Save = Callable[[str], object]


# Exit code of a program that was interrupted and is to be started again: docs/agent.md.
INTERRUPTED = 75
# Written last of a checkpoint, so that the agent need not wait for it to settle.
MARKER = ".complete"


def checkpointing(
    state: Mapping[str, Stateful] | None = None,
    *,
    save: Save | None = None,
    load: Save | None = None,
    every: int,
    keep: int = 3,
) -> Checkpoints:
    """Saves every so many steps, at the end, and on notice.

    Give `state`, objects with `state_dict` and `load_state_dict`, which are saved together with the random numbers of Python, NumPy and
    PyTorch; or `save` and `load`, which get the path of a folder. `keep` checkpoints stay on this disk.

    Of several processes on a machine (torchrun) the first one saves, so `save` must hold what every rank needs.
    """
    if (state is None) == (save is None) or (save is None) != (load is None):
        raise TypeError("give either `state`, or `save` and `load`")
    if every < 1 or keep < 1:
        raise ValueError("`every` and `keep` are at least 1")
    if state is not None:
        kept = state
        save, load = (lambda folder: _save_state(kept, folder)), (lambda folder: _load_state(kept, folder))
    assert save is not None and load is not None
    return Checkpoints(save, load, every, keep)


class Checkpoints:
    """Made by `checkpointing`. `step` is the last step that is done."""

    def __init__(self, save: Save, load: Save, every: int, keep: int) -> None:
        self._save, self._load, self._every, self._keep = save, load, every, keep
        self.folder = os.environ.get("GPUPLAN_CKPT_DIR", "checkpoints")
        self.step = 0
        self._saved: int | None = None
        self._told = False
        self._before: Any = None
        self._is_entered = False

    def __enter__(self) -> Checkpoints:
        import signal
        import threading

        os.makedirs(self.folder, exist_ok=True)
        # Only the main thread may; elsewhere the notice file is left.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._notice)
        self._is_entered = True
        found = os.environ.get("GPUPLAN_RESUME_FROM")
        found = self._newest() if found is None else found
        if found:
            self._load(found)
            self.step = self._saved = _step_of(found)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        import signal

        self._is_entered = False
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def steps(self, total: int) -> Iterator[int]:
        """The steps that are left, from 1 (or after the checkpoint) to `total`. Between two of them it saves, reports and watches."""
        if not self._is_entered:
            raise RuntimeError("use it as `with gpuplan.checkpointing(...) as checkpoints:`")
        while self.step < total:
            if self._is_told():
                self._leave()
            yield self.step + 1
            self.step += 1
            self._report()
            if self.step % self._every == 0 and self.step < total:
                self.save()
        if self._saved != self.step:
            self.save()

    @property
    def noticed(self) -> bool:
        """The machine is about to be taken: for long steps that can end early."""
        return self._told or os.path.exists(os.environ.get("GPUPLAN_NOTICE_FILE") or os.devnull + "/none")

    def save(self) -> None:
        """Saves now, between two steps."""
        if _local_rank() == 0:
            self._write()
        _wait()
        self._saved = self.step

    def _write(self) -> None:
        import shutil

        name = f"step-{self.step:09d}"
        aside, place = os.path.join(self.folder, f".tmp-{name}"), os.path.join(self.folder, name)
        shutil.rmtree(aside, ignore_errors=True)
        os.makedirs(aside)
        self._save(aside)
        _flush_tree(aside)
        with open(os.path.join(aside, MARKER), "wb") as file:
            os.fsync(file.fileno())
        _flush(aside)
        shutil.rmtree(place, ignore_errors=True)
        os.rename(aside, place)
        _flush(self.folder)
        for old in self._complete()[: -self._keep]:
            shutil.rmtree(os.path.join(self.folder, old), ignore_errors=True)

    def _complete(self) -> list[str]:
        names = [name for name in os.listdir(self.folder) if name.startswith("step-")]
        return sorted(name for name in names if os.path.exists(os.path.join(self.folder, name, MARKER)))

    def _newest(self) -> str:
        names = self._complete()
        return os.path.join(self.folder, names[-1]) if names else ""

    def _notice(self, number: int, frame: FrameType | None) -> None:
        self._told = True

    def _is_told(self) -> bool:
        return _any(self.noticed)

    def _leave(self) -> None:
        if self._saved != self.step:
            self.save()
        print(f"gpuplan: interrupted after step {self.step}, which is saved", file=sys.stderr, flush=True)
        raise SystemExit(INTERRUPTED)

    def _report(self) -> None:
        path = os.environ.get("GPUPLAN_PROGRESS_FILE")
        if path and _local_rank() == 0:
            with open(path, "w", encoding="utf-8") as file:
                file.write(str(self.step))


def _step_of(path: str) -> int:
    name = os.path.basename(os.path.normpath(path))
    digits = name.rpartition("-")[2]
    if not digits.isdigit():
        raise ValueError(f"{path} has no step in its name, such as step-000000500")
    return int(digits)


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def _distributed() -> Any:
    """torch.distributed where the program uses it, else None."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None


def _any(flag: bool) -> bool:
    """Whether it is so on any rank: all stop after the same step."""
    distributed = _distributed()
    if distributed is None:
        return flag
    torch = sys.modules["torch"]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    told = torch.tensor(int(flag), device=device)
    distributed.all_reduce(told, op=distributed.ReduceOp.MAX)
    return bool(told.item())


def _wait() -> None:
    distributed = _distributed()
    if distributed is not None:
        distributed.barrier()


def _save_state(state: Mapping[str, Stateful], folder: str) -> None:
    whole = {"state": {name: one.state_dict() for name, one in state.items()}, "random": _random_state()}
    path = os.path.join(folder, "state.pt")
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.save(whole, path)
        return
    import pickle

    with open(path, "wb") as file:
        pickle.dump(whole, file)


def _load_state(state: Mapping[str, Stateful], folder: str) -> None:
    path = os.path.join(folder, "state.pt")
    torch = sys.modules.get("torch")
    if torch is not None:
        # Written by this module, in a folder of the run's own.
        whole = torch.load(path, map_location="cpu", weights_only=False)
    else:
        import pickle

        with open(path, "rb") as file:
            whole = pickle.load(file)
    missing = set(state) ^ set(whole["state"])
    if missing:
        raise ValueError(f"{folder} does not hold the same objects: {', '.join(sorted(missing))} on one side only")
    for name, one in state.items():
        one.load_state_dict(whole["state"][name])
    _set_random_state(whole["random"])


def _random_state() -> dict[str, Any]:
    import random

    found: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        found["numpy"] = numpy.random.get_state()
    if torch is not None:
        found["torch"] = torch.get_rng_state()
        if torch.cuda.is_available():
            found["cuda"] = torch.cuda.get_rng_state_all()
    return found


def _set_random_state(found: dict[str, Any]) -> None:
    import random

    random.setstate(found["python"])
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" in found:
        numpy.random.set_state(found["numpy"])
    if torch is not None and "torch" in found:
        torch.set_rng_state(found["torch"])
        # A machine with another number of GPUs goes on with new random numbers on them.
        if torch.cuda.is_available() and len(found.get("cuda", [])) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(found["cuda"])


def _flush_tree(folder: str) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            _flush(os.path.join(place, name))
        _flush(place)


def _flush(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
