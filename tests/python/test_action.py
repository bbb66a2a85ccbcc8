"""The comment on a pull request: a repository made here, changes made here, and a forge that is a server on this machine."""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import yaml

from gpuplan.pull_request import MARKER, cell, summary

ROOT = os.getcwd()
WORKLOAD = """name = "{name}"
[model]
preset = "llama-3.1-8b"
[training]
task = "lora"
tokens = "{tokens}"
"""


class Forge(http.server.BaseHTTPRequestHandler):
    """Comments of one pull request, as GitHub and GitLab keep them: a hundred a page."""

    def do_GET(self):
        page = int(self.path.rpartition("page=")[2])
        self.reply(200, self.server.comments[(page - 1) * 100 : page * 100])

    def do_POST(self):
        if self.server.refuses:
            return self.reply(403, {"message": "Resource not accessible by integration"})
        comment = {"id": 1000 + len(self.server.comments), "user": {"type": "Bot", "login": "bot"}, "body": self.body()}
        self.server.comments.append(comment)
        self.reply(201, comment)

    def change(self):
        wanted = int(self.path.rpartition("/")[2])
        comment = next(comment for comment in self.server.comments if comment["id"] == wanted)
        comment["body"] = self.body()
        self.server.changes.append((self.command, wanted))
        self.reply(200, comment)

    do_PATCH = do_PUT = change

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

    def reply(self, code, document):
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN")))
        data = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class PullRequest(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forge)
        self.server.comments, self.server.changes, self.server.asked, self.server.refuses = [], [], [], False
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.api = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.kept = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.kept.name, "repository")
        os.makedirs(self.folder)
        self.git("init", "-q", "-b", "main")
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="20M"))
        self.write("pyproject.toml", "[project]\nname = 'x'\n")
        self.write("policy.toml", "[guardrail]\nmax_increase_percent = 50\n")
        self.base = self.commit()
        self.git("checkout", "-q", "-b", "change")

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.kept.cleanup()

    def git(self, *words):
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *who, *words], cwd=self.folder, env=environment, capture_output=True, check=True, text=True)
        return done.stdout.strip()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def comments(self, *words, code=0, step=None, **environment):
        """Runs it as the forge does. With `step`, the script of that step of action.yml instead."""
        event, summary = os.path.join(self.kept.name, "event.json"), os.path.join(self.kept.name, "summary.md")
        with open(event, "w", encoding="utf-8") as file:
            json.dump({"pull_request": {"number": 7, "base": {"sha": self.base}}}, file)
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_PATH": event,
            "GITHUB_API_URL": self.api,
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_TOKEN": "secret",
            "GITHUB_STEP_SUMMARY": summary,
        }
        command = ["bash", "-eo", "pipefail", "-c", step] if step else [sys.executable, "-m", "gpuplan.pull_request", *words]
        done = subprocess.run(command, cwd=self.folder, env={**os.environ, **github, **environment}, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.said = done.stderr
        return [comment["body"] for comment in self.server.comments if comment["body"].startswith(MARKER)]

    def test_one_comment_which_is_kept_up_to_date(self):
        self.server.comments += [{"id": n, "user": {"type": "User", "login": "p"}, "body": f"remark {n}"} for n in range(250)]
        self.server.comments.insert(3, {"id": 999, "user": {"type": "User", "login": "p"}, "body": f"{MARKER}\nquoted by a person"})
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="80M"))
        self.write("workloads/new.toml", WORKLOAD.format(name="new", tokens="10M"))
        self.write("README.md", "no workload")
        self.commit()
        quoted, body = self.comments("workloads/*.toml")
        self.assertIn("quoted by a person", quoted)
        self.assertIn("| workloads/a.toml | $", body)
        self.assertIn("| workloads/new.toml |  | $", body)
        self.assertIn("training.tokens", body)
        # The base is planned at the same prices, so that more tokens cost more and nothing else differs.
        row = next(line for line in body.splitlines() if "a.toml |" in line).split("|")
        self.assertGreater(float(row[3].strip(" $")), float(row[2].strip(" $")))
        self.assertEqual(row[4].strip()[0], "+")
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="40M"))
        self.git("rm", "-q", "workloads/new.toml")
        self.commit()
        _, changed = self.comments("workloads/*.toml")
        self.assertNotIn("new.toml", changed)
        self.assertEqual(len(self.server.changes), 1)
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="20M"))
        self.commit()
        self.assertIn("No workload is changed any more", self.comments("workloads/*.toml")[1])
        self.assertEqual({token for *_, token in self.server.asked}, {"Bearer secret"})
        self.assertEqual([name for name in os.listdir(os.path.join(self.folder, "workloads")) if name.startswith(".")], [])

    def test_a_change_without_workloads_is_left_alone(self):
        self.write("pyproject.toml", "[project]\nname = 'y'\n")
        self.commit()
        self.assertEqual(self.comments(), [])
        self.assertEqual([verb for verb, *_ in self.server.asked], ["GET"])

    def test_files_of_other_programs_are_left_alone(self):
        # torchtitan, prime-rl and others have files with these sections, too.
        self.write("train_configs/llama3_8b.toml", '[model]\nname = "llama3"\nflavor = "8B"\n\n[training]\nsteps = 1000\n')
        self.commit()
        self.assertEqual(self.comments(), [])

    def test_a_workload_that_cannot_be_planned_fails_the_check_and_says_why(self):
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="20M").replace("8b", "8c"))
        self.write("workloads/<img src=x>|`@team`.toml", WORKLOAD.format(name="b", tokens="1M"))
        self.git("rm", "-q", "policy.toml")
        self.commit()
        (body,) = self.comments("workloads/*.toml", code=1)
        self.assertIn("llama-3.1-8c", body)
        self.assertIn(r"\<img src=x\>\|", body)
        self.assertNotIn("@team", body)

    def test_a_guardrail_is_that_of_the_target_branch(self):
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="200M"))
        self.write("policy.toml", "[guardrail]\nmax_increase_percent = 100000\n")
        self.commit()
        (body,) = self.comments("workloads/*.toml", "--policy", "policy.toml", code=1)
        self.assertIn("50", body)
        self.assertIn("a guardrail is broken", self.said)

    def test_a_fork_may_not_write_and_loses_nothing(self):
        self.server.refuses = True
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="30M"))
        self.commit()
        self.assertEqual(self.comments(), [])
        self.assertIn("pull-requests: write", self.said)
        with open(os.path.join(self.kept.name, "summary.md"), encoding="utf-8") as file:
            self.assertIn("workloads/a.toml", file.read())

    def test_the_steps_of_the_action_run(self):
        with open(os.path.join(ROOT, "action.yml"), encoding="utf-8") as file:
            action = yaml.safe_load(file)
        installing, commenting = action["runs"]["steps"]
        self.assertIn("gpuplan${VERSION", installing["run"])
        # No input may stand in a script.
        for step in action["runs"]["steps"]:
            self.assertNotIn("${{", step["run"])
            self.assertTrue(set(step["env"].values()) <= {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}, step)
        programs = os.path.join(self.kept.name, "gpuplan/bin")
        os.makedirs(programs)
        with open(os.path.join(programs, "python"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        os.chmod(file.name, 0o755)
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="60M"))
        self.commit()
        inputs = {"FILES": "workloads/*.toml\nother/*.toml\n", "POLICY": "", "OPTIONS": "--on-demand\n--gpus=H100", "RUNNER_TEMP": self.kept.name}
        (body,) = self.comments(step=commenting["run"], **inputs)
        self.assertIn("on\\-demand" if "on\\-demand" in body else "on-demand", body)

    def test_gitlab(self):
        self.write("workloads/a.toml", WORKLOAD.format(name="a", tokens="60M"))
        self.commit()
        gitlab = {
            "GITHUB_ACTIONS": "",
            "CI_MERGE_REQUEST_IID": "3",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.base,
            "CI_API_V4_URL": self.api,
            "CI_PROJECT_ID": "12",
            "GITLAB_TOKEN": "token",
        }
        for _ in range(2):
            self.assertEqual(len(self.comments("workloads/*.toml", **gitlab)), 1)
        self.assertEqual([verb for verb, _ in self.server.changes], ["PUT"])
        self.assertEqual(self.server.asked[0][1], "/projects/12/merge_requests/3/notes?per_page=100&page=1")
        with open(os.path.join(ROOT, "examples/gitlab-ci.yml"), encoding="utf-8") as file:
            job = yaml.safe_load(file)["gpuplan"]
        self.assertEqual(job["script"], ["python -m gpuplan.pull_request 'workloads/*.toml'"])

    def test_the_hook_of_pre_commit(self):
        with open(os.path.join(ROOT, "examples/pre-commit-config.yaml"), encoding="utf-8") as file:
            (hook,) = yaml.safe_load(file)["repos"][0]["hooks"]
        folder = os.path.dirname(os.environ["GPUPLAN_PROGRAM"])
        environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}
        self.write("workloads/bad.toml", "[modell]\n")
        for files, code in [(["workloads/a.toml"], 0), (["workloads/a.toml", "workloads/bad.toml"], 2), ([], 0)]:
            # As pre-commit calls it: the names behind the entry.
            words = hook["entry"].replace("gpuplan plan", "gpuplan plan") + "".join(f" {name}" for name in files)
            done = subprocess.run(["bash", "-c", words], cwd=self.folder, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)

    def test_what_a_table_shows_obeys_nothing(self):
        self.assertEqual(cell("a\n| b <i> @all [x](y)"), r"a \| b \<i\> @" + "\u200b" + r"all \[x\](y)")
        self.assertEqual(summary("<b>@all</b>"), "&lt;b&gt;@\u200ball&lt;/b&gt;")


if __name__ == "__main__":
    unittest.main()
