"""Comments what the workloads that a pull request changes cost, before and after: `python -m gpuplan.pull_request 'workloads/*.toml'`.

Runs in GitHub Actions (action.yml) and in merge requests of GitLab (examples/gitlab-ci.yml), and finds out by their variables where it is. One
comment a pull request: it carries a marker, and the next run changes it instead of adding another. Both sides are planned at the same prices,
so a difference is the pull request's own.
"""

from __future__ import annotations

import argparse
import fnmatch
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from datetime import datetime, timezone

from .program import GpuplanError, program, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Other programs have TOML files with a section [model], too.
PATTERN = "workloads/*.toml"
MARKER = "<!-- gpuplan: cost of changed workloads -->"
# GitHub refuses a comment of more than 65,536 characters.
LONGEST_COMMENT = 60_000
LONGEST_LIST_OF_COMMENTS = 100
# Seconds; a forge that does not answer must not hold a check for hours.
PATIENCE = 30
# What a workload file has. A portfolio is planned by `gpuplan budget`, and compared there.
WORKLOAD = re.compile(r"^\s*\[+\s*(model|processing|phase)\b", re.MULTILINE)
# Exit code of `gpuplan diff` where a guardrail is broken.
GUARDRAIL = 4


class Forge:
    """Where comments are: their addresses and the names of their fields."""

    def __init__(self, comments: str, change: str, method: str, headers: dict[str, str]) -> None:
        self.comments, self.change, self.method, self.headers = comments, change, method, headers

    @staticmethod
    def found() -> tuple[Forge | None, str]:
        """The forge of this run (None: nothing to comment on) and the commit that the change starts from."""
        env = os.environ
        if env.get("GITHUB_ACTIONS"):
            with open(env["GITHUB_EVENT_PATH"], encoding="utf-8") as file:
                request = json.load(file).get("pull_request")
            if request is None:
                raise SystemExit("this event is no pull request: use `on: pull_request`")
            api = f"{env['GITHUB_API_URL']}/repos/{env['GITHUB_REPOSITORY']}/issues"
            headers = {"Authorization": f"Bearer {env.get('GITHUB_TOKEN', '')}", "Accept": "application/vnd.github+json"}
            forge = Forge(f"{api}/{request['number']}/comments", f"{api}/comments/{{id}}", "PATCH", headers)
            return forge, request["base"]["sha"]
        if env.get("CI_MERGE_REQUEST_IID"):
            notes = f"{env['CI_API_V4_URL']}/projects/{env['CI_PROJECT_ID']}/merge_requests/{env['CI_MERGE_REQUEST_IID']}/notes"
            return Forge(notes, notes + "/{id}", "PUT", {"PRIVATE-TOKEN": env.get("GITLAB_TOKEN", "")}), env["CI_MERGE_REQUEST_DIFF_BASE_SHA"]
        return None, env.get("GPUPLAN_BASE", "HEAD^")

    def ask(self, method: str, url: str, body: dict[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.headers, "Content-Type": "application/json", "User-Agent": "gpuplan"}
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=PATIENCE) as answer:
            return json.load(answer)

    def earlier(self) -> str | None:
        """The comment with the marker at its head. People quote comments, so the marker anywhere else is none."""
        page = 1
        while True:
            found = self.ask("GET", f"{self.comments}?per_page={LONGEST_LIST_OF_COMMENTS}&page={page}")
            for comment in found:
                is_person = comment.get("user", {}).get("type") == "User"
                if comment["body"].startswith(MARKER) and not (is_person and os.environ.get("GPUPLAN_COMMENTS_AS") != comment["user"]["login"]):
                    return str(comment["id"])
            if len(found) < LONGEST_LIST_OF_COMMENTS:
                return None
            page += 1

    def say(self, text: str | None) -> None:
        """Leaves exactly this comment; None only takes back what an earlier one said."""
        known = self.earlier()
        if known is not None:
            gone = f"{MARKER}\nNo workload is changed any more."
            self.ask(self.method, self.change.format(id=known), {"body": text or gone})
        elif text is not None:
            self.ask("POST", self.comments, {"body": text})


def git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, check=True, text=True, encoding="utf-8").stdout


def changed(base: str, patterns: list[str]) -> list[tuple[str, str]]:
    """Letter (A, M, D) and name of every changed file that a pattern names."""
    fields = git("diff", "--name-status", "--no-renames", "-z", f"{base}...HEAD").split("\0")[:-1]
    pairs = list(zip(fields[::2], fields[1::2]))
    return [(letter, name) for letter, name in pairs if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def text_of(commit: str, name: str) -> str | None:
    done = subprocess.run(["git", "show", f"{commit}:{name}"], capture_output=True)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


class Side:
    """A workload before or after: its plan, or why there is none."""

    def __init__(self, folder: str, name: str, text: str | None, words: list[str]) -> None:
        self.path, self.error = os.path.join(folder, "plan.json"), ""
        self.plan: dict[str, Any] | None = None
        if text is None or not WORKLOAD.search(text):
            return
        # Beside the file of the checkout, where its relative names lead.
        place = os.path.dirname(name) or "."
        os.makedirs(place, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=place, prefix=".gpuplan-", suffix=".toml") as file:
            file.write(text)
            file.flush()
            try:
                answer = run(["plan", os.path.abspath(file.name), *words, "--output=json"])
            except GpuplanError as error:
                self.error = error.message.replace(os.path.abspath(file.name), name)
                return
        self.plan = json.loads(answer)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(answer)

    def cost(self) -> float | None:
        best = (self.plan or {}).get("recommendation")
        return None if best is None else float(best["cost_usd"]["expected"])

    def machines(self) -> str:
        best = (self.plan or {}).get("recommendation")
        if best is None:
            return self.error
        return f"{best['nodes']} x {best['instance_type']}, {best['cloud']} {best['region']}, {best['purchase']}; ends in {best['run_hours']['expected']:.1f} h"


def usd(amount: float | None) -> str:
    return "" if amount is None else f"${amount:,.2f}"


def cell(text: str) -> str:
    """In a table of Markdown: what a file's name or an error says is shown and not obeyed."""
    text = " ".join(text.split())[:300]
    return re.sub(r"([\\`*_{}\[\]<>|#!~$&])", r"\\\1", text).replace("@", "@\u200b")


def summary(text: str) -> str:
    """The same between tags, where Markdown is not read."""
    return html.escape(" ".join(text.split())[:300]).replace("@", "@\u200b")


class Comment:
    def __init__(self) -> None:
        self.rows: list[str] = []
        self.details: list[str] = []
        self.before = self.after = 0.0
        self.is_broken = self.has_errors = False

    def add(self, name: str, before: Side, after: Side, policy: str | None) -> None:
        was, now = before.cost(), after.cost()
        self.before, self.after = self.before + (was or 0.0), self.after + (now or 0.0)
        change = "" if was is None or now is None else f"{'+' if now >= was else '-'}{usd(abs(now - was))}"
        self.has_errors |= bool(after.error)
        self.rows.append(f"| {cell(name)} | {usd(was)} | {usd(now)} | {change} | {cell(after.machines())} |")
        if before.plan and after.plan:
            self.compare(name, before, after, policy)

    def compare(self, name: str, before: Side, after: Side, policy: str | None) -> None:
        words = ["diff", before.path, after.path, "--output", "markdown", *(["--policy", policy] if policy else [])]
        done = subprocess.run([program(), *words], capture_output=True, text=True, encoding="utf-8")
        if done.returncode not in (0, GUARDRAIL):
            return
        self.is_broken |= done.returncode == GUARDRAIL
        lines = done.stdout.strip().splitlines()
        # Its own heading names files that nobody else has.
        body = "\n".join(lines[1:] if lines and lines[0].startswith("#") else lines).strip()
        self.details.append(f"\n<details><summary>{summary(name)}</summary>\n\n{body}\n\n</details>\n")

    def text(self, at: str) -> str | None:
        if not self.rows:
            return None
        head = f"{MARKER}\n### Cost of the changed workloads: {usd(self.before)} → {usd(self.after)}\n\n"
        table = "| workload | before | after | change | now planned |\n| --- | ---: | ---: | ---: | --- |\n" + "\n".join(self.rows) + "\n"
        foot = f"\nExpected costs by [gpuplan](https://github.com/gpuplan/gpuplan), both sides at the prices known at {at}.\n"
        text = head + table
        for detail in self.details:
            if len(text) + len(detail) + len(foot) < LONGEST_COMMENT:
                text += detail
        return text[:LONGEST_COMMENT] + foot


def composed(base: str, patterns: list[str], words: list[str], policy: str | None) -> tuple[Comment, str | None]:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    comment, fork = Comment(), git("merge-base", base, "HEAD").strip()
    for letter, name in changed(base, patterns):
        before_text = None if letter == "A" else text_of(fork, name)
        after_text = None if letter == "D" else text_of("HEAD", name)
        if not any(text and WORKLOAD.search(text) for text in (before_text, after_text)):
            continue
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            sides = [Side(one, name, before_text, [*words, "--now", now]), Side(other, name, after_text, [*words, "--now", now])]
            comment.add(name, sides[0], sides[1], policy)
    return comment, comment.text(now)


def rules(base: str, name: str, folder: str) -> str | None:
    """The policy as it is on the branch that the change goes to: a change is not judged by rules of its own."""
    text = text_of(base, name)
    if text is None:
        print(f"::warning::{name} is not on the target branch yet: no guardrail is checked", file=sys.stderr)
        return None
    path = os.path.join(folder, "policy.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gpuplan.pull_request", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patterns", nargs="*", default=[PATTERN], help=f"names of workload files, {PATTERN} unless said; * also matches folders")
    parser.add_argument("--policy", help="policy.toml with guardrails: the check fails where one is broken")
    parser.add_argument("--option", action="append", default=[], help="an option of `gpuplan plan`, such as --option=--on-demand")
    asked = parser.parse_args()
    forge, base = Forge.found()
    with tempfile.TemporaryDirectory() as folder:
        policy = rules(base, asked.policy, folder) if asked.policy else None
        comment, text = composed(base, asked.patterns, asked.option, policy)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if text and summary:
        with open(summary, "a", encoding="utf-8") as file:
            file.write(text)
    if forge is None:
        print(text or "no workload is changed")
    else:
        try:
            forge.say(text)
        except urllib.error.HTTPError as error:
            # A pull request from a fork has a token that may not write.
            if error.code not in (401, 403, 404):
                raise
            print(f"::warning::the comment was refused ({error.code}): the job needs `permissions: pull-requests: write`", file=sys.stderr)
            print(text or "no workload is changed")
    if comment.is_broken:
        print("a guardrail is broken: see the comment", file=sys.stderr)
    if comment.has_errors:
        print("a workload cannot be planned: see the comment", file=sys.stderr)
    return 1 if comment.is_broken or comment.has_errors else 0


if __name__ == "__main__":
    sys.exit(main())
