"""`gpuplan.checkpointing`: on its own, under the agent, interrupted at any step: the same result as undisturbed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import gpuplan

PROGRAM = os.environ["GPUPLAN_PROGRAM"]
TOTAL = 60

# A training program as a user writes it: state, random numbers, a result that depends on both.
TRAINER = """
import json, os, random, sys, time
import gpuplan

class Weights:
    def __init__(self): self.value, self.seen = 0.0, []
    def state_dict(self): return {"value": self.value, "seen": self.seen}
    def load_state_dict(self, state): self.value, self.seen = state["value"], list(state["seen"])

random.seed(7)
weights = Weights()
with gpuplan.checkpointing({"weights": weights}, every=10) as checkpoints:
    for step in checkpoints.steps(int(sys.argv[1])):
        weights.value += random.random() * step
        weights.seen.append(step)
        time.sleep(float(sys.argv[2]))
with open("result.json", "w") as file:
    json.dump([weights.value, weights.seen], file)
"""


class Checkpointing(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = self.kept.name
        self.trainer = os.path.join(self.folder, "train.py")
        with open(self.trainer, "w", encoding="utf-8") as file:
            file.write(TRAINER)

    def tearDown(self):
        self.kept.cleanup()

    def start(self, folder, *agent, seconds="0.01", **environment):
        command = [*agent, sys.executable, self.trainer, str(TOTAL), seconds]
        return subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def place(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def ended(self, process):
        out, err = process.communicate(timeout=180)
        return process.returncode, err.decode()

    def result(self, folder):
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            return json.load(file)

    def undisturbed(self):
        folder = self.place("undisturbed")
        code, said = self.ended(self.start(folder, seconds="0"))
        self.assertEqual(code, 0, said)
        return self.result(folder)

    def seen(self, path, process):
        """Waits until there is such a file, or the program has ended."""
        while not os.path.exists(path) and process.poll() is None:
            time.sleep(0.005)

    def test_alone_it_goes_on_from_its_own_folder(self):
        wanted, folder = self.undisturbed(), self.place("alone")
        self.assertEqual(wanted[1], list(range(1, TOTAL + 1)))
        for step in (10, 30):
            process = self.start(folder)
            self.seen(os.path.join(folder, "checkpoints", f"step-{step:09d}"), process)
            process.send_signal(signal.SIGTERM)
            code, said = self.ended(process)
            self.assertEqual(code, 75, said)
            self.assertIn("which is saved", said)
        code, said = self.ended(self.start(folder))
        self.assertEqual((code, self.result(folder)), (0, wanted), said)
        names = sorted(os.listdir(os.path.join(folder, "checkpoints")))
        self.assertEqual(len(names), 3, names)

    def test_killed_it_goes_on_from_the_last_complete_one(self):
        wanted, folder = self.undisturbed(), self.place("killed")
        process = self.start(folder)
        self.seen(os.path.join(folder, "checkpoints", "step-000000020"), process)
        process.kill()
        self.ended(process)
        # What a kill leaves half written is no checkpoint.
        os.makedirs(os.path.join(folder, "checkpoints", "step-000000059"))
        os.makedirs(os.path.join(folder, "checkpoints", ".tmp-step-000000030"), exist_ok=True)
        code, said = self.ended(self.start(folder))
        self.assertEqual((code, self.result(folder)), (0, wanted), said)

    def test_the_agent_finds_uploads_and_restores_it(self):
        wanted, store = self.undisturbed(), "file://" + self.place("store")
        agent = [PROGRAM, "agent", "--store", store, "--run", "py", "--notices", "none", "--"]
        first = self.place("machine-1")
        process = self.start(first, *agent, seconds="0.05")
        self.seen(os.path.join(first, "checkpoints", "step-000000020"), process)
        process.send_signal(signal.SIGTERM)
        code, said = self.ended(process)
        self.assertEqual(code, 75, said)
        manifests = os.listdir(os.path.join(self.folder, "store/runs/py/manifests"))
        self.assertTrue(any(name.startswith("step-") for name in manifests), manifests)
        # Another machine, with nothing on its disk.
        second = self.place("machine-2")
        code, said = self.ended(self.start(second, *agent))
        self.assertEqual((code, self.result(second)), (0, wanted), said)

    def test_a_notice_file_is_a_notice_and_the_step_is_reported(self):
        folder = self.place("noticed")
        notice, progress = os.path.join(folder, "notice"), os.path.join(folder, "progress")
        process = self.start(folder, GPUPLAN_NOTICE_FILE=notice, GPUPLAN_PROGRESS_FILE=progress)
        self.seen(progress, process)
        with open(notice, "w", encoding="utf-8") as file:
            file.write("{}")
        code, said = self.ended(process)
        self.assertEqual(code, 75, said)
        with open(progress, encoding="utf-8") as file:
            step = int(file.read())
        self.assertTrue(os.path.exists(os.path.join(folder, "checkpoints", f"step-{step:09d}", ".complete")))

    def test_own_functions_and_an_error_in_the_loop(self):
        os.environ["GPUPLAN_CKPT_DIR"] = self.place("own")
        before = signal.getsignal(signal.SIGTERM)
        done = []

        def save(folder):
            with open(os.path.join(folder, "mine"), "w", encoding="utf-8") as file:
                file.write(str(done[-1]))

        with self.assertRaisesRegex(RuntimeError, "step 8"):
            with gpuplan.checkpointing(save=save, load=lambda folder: None, every=5) as checkpoints:
                for step in checkpoints.steps(20):
                    if step == 8:
                        raise RuntimeError("step 8")
                    done.append(step)
        # What was in flight when it failed is not saved, what was saved stays, and the signal is the program's again.
        self.assertEqual(sorted(os.listdir(os.environ["GPUPLAN_CKPT_DIR"])), ["step-000000005"])
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)
        with gpuplan.checkpointing(save=save, load=lambda folder: done.append(folder), every=5) as checkpoints:
            self.assertEqual(next(checkpoints.steps(20)), 6)
        self.assertTrue(done[-1].endswith("step-000000005"))
        del os.environ["GPUPLAN_CKPT_DIR"]

    def test_what_cannot_work_is_refused(self):
        nothing = lambda folder: None  # noqa: E731
        for wrong in [{}, {"state": {}, "save": nothing}, {"save": nothing}, {"load": nothing}]:
            with self.subTest(wrong), self.assertRaises(TypeError):
                gpuplan.checkpointing(**wrong, every=1)
        with self.assertRaises(ValueError):
            gpuplan.checkpointing({}, every=0)
        with self.assertRaises(RuntimeError):
            next(gpuplan.checkpointing({}, every=1).steps(1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
