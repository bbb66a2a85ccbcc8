"""Finds the program `gpuplan` and runs it: every answer of this package is its JSON."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

    Value = str | int | float | bool | None | Iterable[str | int | float]


class GpuplanError(Exception):
    """The program refused or failed: a stable word (`kind`), what is wrong, what to type next (`hint`), its exit code."""

    def __init__(self, kind: str, message: str, hint: str | None, exit_code: int) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.kind, self.message, self.hint, self.exit_code = kind, message, hint, exit_code

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.kind, self.message, self.hint, self.exit_code)


def program() -> str:
    """$GPUPLAN_PROGRAM, else the program that was installed with this package, else the first on PATH."""
    named = os.environ.get("GPUPLAN_PROGRAM")
    if named:
        return named
    import shutil
    import sysconfig

    name = "gpuplan" + (sysconfig.get_config_var("EXE") or "")
    schemes = [None, f"{os.name}_user"]
    for scheme in schemes:
        folder = sysconfig.get_path("scripts") if scheme is None else sysconfig.get_path("scripts", scheme)
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError("the program `gpuplan` is not installed; `pip install gpuplan` brings it, or set GPUPLAN_PROGRAM")
    return found


def options(values: dict[str, Value]) -> list[str]:
    """Keywords as options: `max_price=3` is `--max-price=3`, True a switch, a list the option several times, None nothing."""
    words: list[str] = []
    for name, value in values.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (str, int, float)):
            words.append(f"{option}={value}")
        elif isinstance(value, dict):
            words.extend(f"{option}={key}={'true' if one is True else 'false' if one is False else one}" for key, one in value.items())
        else:
            words.extend(f"{option}={one}" for one in value)
    return words


def run(words: list[str], stdin: str | None = None) -> str:
    """What the program prints."""
    return finished(words, stdin)[0]


def told(words: list[str], stdin: str | None = None) -> str:
    """What the program tells people while it works."""
    return finished(words, stdin)[1]


def document(words: list[str], stdin: str | None = None) -> dict[str, Any]:
    import json

    answer = json.loads(run([*words, "--output=json"], stdin))
    assert isinstance(answer, dict)
    return answer


def finished(words: list[str], stdin: str | None = None) -> tuple[str, str]:
    """What it prints, and what it tells."""
    import subprocess

    given = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    done = subprocess.run([program(), *words], capture_output=True, text=True, encoding="utf-8", **given)
    if done.returncode != 0:
        raise _error(done.stderr.strip(), done.returncode)
    return done.stdout, done.stderr


def _error(stderr: str, exit_code: int) -> GpuplanError:
    import json

    try:
        error = json.loads(stderr.splitlines()[-1])["error"]
        return GpuplanError(error["kind"], error["message"], error["hint"], exit_code)
    except (IndexError, KeyError, TypeError, ValueError):
        lines = stderr.splitlines()
        hints = [line[len("hint: ") :] for line in lines if line.startswith("hint: ")]
        message = "\n".join(line for line in lines if line and not line.startswith("hint: ")).removeprefix("error: ")
        return GpuplanError("unexpected", message, "\n".join(hints) or None, exit_code)
