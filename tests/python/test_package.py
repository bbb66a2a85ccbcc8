"""`import gpuplan`: its answers are those of the program, as objects."""

import copy
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal

import gpuplan
from gpuplan.program import options

WITH_PANDAS = "--pandas" in sys.argv
EXAMPLE = "examples/llama-3.1-8b-lora.toml"
WORK = {"model": "llama-3.1-8b", "task": "lora", "tokens": "50M"}
NOW = "2026-11-10T12:00:00Z"


def printed(*words):
    done = subprocess.run([os.environ["GPUPLAN_PROGRAM"], *words, "-o", "json"], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


class Package(unittest.TestCase):
    def test_a_plan_is_what_the_program_prints(self):
        plan = gpuplan.plan(EXAMPLE, now=NOW)
        self.assertEqual(plan.to_dict(), printed("plan", EXAMPLE, "--now", NOW))
        best = plan.recommendation
        self.assertIsInstance(best, gpuplan.PlanRecord)
        # The bill adds up to the last nano-dollar.
        self.assertEqual(sum(line.cost_usd for line in best.bill), best.cost_usd.expected)
        self.assertIsInstance(best.cost_usd.expected, Decimal)
        self.assertEqual(best.rate_usd_per_hour, Decimal(best["rate_usd_per_hour"]))
        self.assertLessEqual(best.step_seconds.low, best.step_seconds.high)
        self.assertIn("recommended", [role for choice in plan.choices for role in choice.roles])
        # A field of the schema that the program left out is unknown; any other is an error.
        self.assertIsNone(plan.phases)
        with self.assertRaisesRegex(AttributeError, "recomendation"):
            plan.recomendation

    def test_keywords_are_options(self):
        self.assertEqual(
            options({"max_price": 3, "gpus": ["H100:8", "A100"], "spot": True, "live": False, "region": None, "set_": {"a.b": True, "c.d": 1}}),
            ["--max-price=3", "--gpus=H100:8", "--gpus=A100", "--spot", "--set=a.b=true", "--set=c.d=1"],
        )
        self.assertEqual(options({"tokens": 50_000_000, "model": "--help"}), ["--tokens=50000000", "--model=--help"])
        plan = gpuplan.plan(**WORK, gpus="A100", set_={"training.sequence_length": 4096})
        self.assertTrue(plan.recommendation.gpu.startswith("a100"))
        self.assertEqual(plan.workload.sequence_length, 4096)

    def test_every_question_has_its_document(self):
        plan = gpuplan.plan(**WORK)
        self.assertTrue(gpuplan.explain(plan).recommended)
        self.assertFalse(gpuplan.explain(plan, plan.frontier[-1]).recommended)
        self.assertTrue(gpuplan.explain(EXAMPLE, "H100").plan.gpu.startswith("h100"))
        estimate = gpuplan.estimate(EXAMPLE, gpus="H100:8")
        self.assertLess(estimate.step_seconds.low, estimate.step_seconds.high)
        offers = gpuplan.prices("H100:8", on_demand=True).offers
        self.assertEqual(offers, gpuplan.prices("H100:8", on_demand=True).offers)
        self.assertEqual(sorted(offers, key=lambda offer: offer.rate_usd_per_gpu_hour), offers)
        once = gpuplan.budget(plan).total.cost_usd.expected
        self.assertEqual(once, plan.recommendation.cost_usd.expected)
        self.assertGreater(gpuplan.budget("examples/portfolio.toml").total.cost_usd.expected, 0)
        self.assertEqual(gpuplan.status().runs, [])

    def test_an_error_is_an_exception_with_what_to_type(self):
        for asked, kind, code in [
            ({**WORK, "model": "llama-3.1-8c"}, "usage", 2),
            ({**WORK, "budget": 0.01}, "over-budget", 4),
            ({**WORK, "modell": "x"}, "usage", 2),
            ({}, "usage", 2),
        ]:
            with self.subTest(asked), self.assertRaises(gpuplan.GpuplanError) as caught:
                gpuplan.plan(**asked)
            self.assertEqual((caught.exception.kind, caught.exception.exit_code), (kind, code))
            self.assertIsInstance(pickle.loads(pickle.dumps(caught.exception)).hint, (str, type(None)))
        with self.assertRaises(gpuplan.GpuplanError):
            gpuplan.plan("-o")

    def test_a_plan_is_saved_copied_and_shown(self):
        plan = gpuplan.plan(EXAMPLE, now=NOW)
        for twin in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
            self.assertEqual(twin, plan)
            self.assertEqual(twin.recommendation.id, plan.recommendation.id)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            plan.save(path)
            self.assertEqual(gpuplan.load(path), plan)
        page = plan._repr_html_()
        self.assertTrue(page.startswith("<iframe") and "&lt;svg" in page, page[:200])
        self.assertNotIn("<script", page)
        table = gpuplan.prices("H100:8")._repr_html_()
        self.assertIn("<th>cloud</th>", table)
        self.assertIn("instance_type='", repr(plan.recommendation))

    def test_nothing_is_launched_without_yes(self):
        plan = gpuplan.plan(**WORK)
        shown = gpuplan.launch(plan, ["python", "train.py"], cloud="fake")
        self.assertIn("at worst $", shown.told)
        self.assertIsNone(shown.run)
        self.assertEqual(gpuplan.status().runs, [])
        with self.assertRaises(TypeError):
            gpuplan.launch(plan, "python train.py")
        with self.assertRaises(ValueError):
            shown.status()

    @unittest.skipUnless(WITH_PANDAS, "pandas is asked for by --pandas")
    def test_tables(self):
        offers = gpuplan.prices("H100").to_pandas()
        self.assertIn("rate_usd_per_gpu_hour", offers.columns)
        plan = gpuplan.plan(**WORK)
        self.assertEqual(len(plan.to_pandas("frontier")), len(plan.frontier))
        self.assertIn("cost_usd.expected", plan.to_pandas("frontier").columns)
        self.assertEqual(len(plan.to_pandas()), len(plan.choices))

    def test_importing_is_light(self):
        heavy = "json,subprocess,decimal,tempfile,typing,dataclasses,pandas,torch,numpy"
        code = f"import sys; before = set(sys.modules); import gpuplan; print(set(sys.modules) - before & set({heavy.split(',')!r}))"
        code = code.replace("set(sys.modules) - before &", "(set(sys.modules) - before) &")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        self.assertEqual(done.stdout.strip(), "set()")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
