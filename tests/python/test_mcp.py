"""`gpuplan mcp` by the official client (https://pypi.org/project/mcp): its tools, its resources, and who may launch."""

import asyncio
import contextlib
import json
import os
import sys
import time
import unittest

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

PROGRAM = os.environ["GPUPLAN_PROGRAM"]
WORK = {"model": "llama-3.1-8b", "task": "lora", "tokens": "50M"}
TRAIN = [sys.executable, os.path.abspath("examples/train.py"), "--steps", "12", "--seconds-per-step", "0.005"]


@contextlib.asynccontextmanager
async def client(person=None):
    environment = {name: os.environ[name] for name in ("GPUPLAN_HOME", "GPUPLAN_OFFLINE", "PATH")}
    server = StdioServerParameters(command=PROGRAM, args=["mcp"], env=environment)
    async with stdio_client(server) as (read, write), ClientSession(read, write, elicitation_callback=person) as session:
        await session.initialize()
        yield session


async def answer(session, tool, arguments):
    result = await session.call_tool(tool, arguments)
    document = result.structured_content
    assert json.loads(result.content[0].text) == document
    return document, result.is_error


class Agent(unittest.IsolatedAsyncioTestCase):
    async def test_tools_are_described(self):
        async with client() as session:
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            self.assertEqual(set(tools), {"plan", "explain", "estimate", "prices", "budget", "status", "launch"})
            for name, tool in tools.items():
                self.assertEqual(tool.annotations.read_only_hint, name != "launch")
                self.assertNotIn("yes", tool.input_schema["properties"])
            # All of them together leave an agent room to think.
            self.assertLess(len(json.dumps([tool.input_schema for tool in tools.values()])), 30_000)

    async def test_every_tool_answers(self):
        async with client() as session:
            plan, failed = await answer(session, "plan", {**WORK, "deadline": "2d", "gpus": ["H100", "A100"]})
            self.assertFalse(failed)
            best = plan["recommendation"]
            self.assertTrue(best["gpu"].startswith(("h100", "a100")), best["gpu"])
            self.assertLess(len(json.dumps(plan)), 40_000)
            self.assertGreater(plan["left_out"]["rejected"], 0)
            whole, _ = await answer(session, "plan", {**WORK, "deadline": "2d", "gpus": ["H100", "A100"], "full": True})
            self.assertEqual(whole["recommendation"]["id"], best["id"])
            self.assertEqual(len(whole["rejected"]), len(plan["rejected"]) + plan["left_out"]["rejected"])
            with open("examples/llama-3.1-8b-lora.toml", encoding="utf-8") as file:
                explained, failed = await answer(session, "explain", {"workload": file.read(), "plan": "H100"})
            self.assertFalse(failed, explained)
            estimate, _ = await answer(session, "estimate", {**WORK, "gpus": "H100:8"})
            self.assertLess(estimate["step_seconds"]["low"], estimate["step_seconds"]["high"])
            prices, _ = await answer(session, "prices", {"gpus": "H100:8", "on_demand": True})
            self.assertEqual({offer["gpu_count"] for offer in prices["offers"]}, {8})
            rates = [float(offer["rate_usd_per_gpu_hour"]) for offer in prices["offers"]]
            self.assertEqual(rates, sorted(rates))
            budget, failed = await answer(session, "budget", {"portfolio": json.dumps(whole)})
            self.assertFalse(failed, budget)
            self.assertEqual(budget["currency"], "USD")
            status, _ = await answer(session, "status", {})
            self.assertIsInstance(status["runs"], list)

    async def test_what_is_wrong_is_said(self):
        async with client() as session:
            for tool, arguments, kind, said in [
                ("plan", {"model": "llama-3.1-8c", "task": "lora", "tokens": "1M"}, "usage", "llama-3.1-8c"),
                ("plan", {**WORK, "gpu": "H100"}, "usage", "did you mean `gpus`"),
                ("plan", {**WORK, "spot": "yes"}, "usage", "true or false"),
                ("plan", {**WORK, "budget": "0.01"}, "over-budget", ""),
                ("plan", {"workload": "[model\n"}, "usage", "line 1"),
                ("plan", {"workload": ""}, "usage", ""),
                ("explain", {**WORK, "plan": "\u0000x"}, None, ""),
                ("status", {"run": "--help"}, "usage", "hyphen"),
                ("status", {"run": "no-such-run"}, "usage", "no-such-run"),
                ("budget", {"portfolio": "../../etc/passwd"}, "usage", ""),
                ("launch", WORK, "usage", "command"),
            ]:
                with self.subTest(tool=tool, arguments=arguments):
                    document, failed = await answer(session, tool, arguments)
                    self.assertTrue(failed, document)
                    if "error" in document and kind:
                        self.assertEqual(document["error"]["kind"], kind)
                        self.assertIn(said, document["error"]["message"] + (document["error"]["hint"] or ""))
            for tool in ("plam", "rm"):
                with self.assertRaises(Exception):
                    await session.call_tool(tool, {})
            # And it is still there.
            await session.send_ping()

    async def test_resources_can_be_read(self):
        async with client() as session:
            listed = (await session.list_resources()).resources
            self.assertIn("gpuplan://schema/plan", [str(one.uri) for one in listed])
            for one in listed:
                text = (await session.read_resource(one.uri)).contents[0].text
                self.assertGreater(len(text), 200)
            with self.assertRaises(Exception):
                await session.read_resource("file:///etc/passwd")

    async def test_nothing_is_rented_without_a_person(self):
        async with client() as session:
            document, failed = await answer(session, "launch", {**WORK, "command": TRAIN, "run": "alone", "rehearse": True})
            self.assertTrue(failed)
            self.assertIn("nothing was rented", document["error"]["message"])
            self.assertTrue(document["error"]["hint"].startswith("gpuplan launch --model="), document["error"]["hint"])
        for number, refusal in enumerate(
            [
                ElicitResult(action="decline"),
                ElicitResult(action="cancel"),
                ElicitResult(action="accept", content={"run": "another"}),
                ElicitResult(action="accept", content={"run": ""}),
                ElicitResult(action="accept", content={}),
            ]
        ):
            asked = []

            async def person(context, parameters, refusal=refusal, asked=asked):
                asked.append(parameters.message)
                return refusal

            async with client(person) as session:
                name = f"refused-{number}"
                document, failed = await answer(session, "launch", {**WORK, "command": TRAIN, "run": name, "rehearse": True})
                self.assertTrue(failed, document)
                self.assertIn("at worst $", asked[0])
                self.assertIn("train.py", asked[0])
                status, _ = await answer(session, "status", {})
                self.assertNotIn(name, [run["run"] for run in status["runs"]])

    async def test_a_person_who_types_the_name_launches(self):
        async def person(context, parameters):
            self.assertEqual(list(parameters.requested_schema["properties"]), ["run"])
            return ElicitResult(action="accept", content={"run": "agreed"})

        async with client(person) as session:
            document, failed = await answer(session, "launch", {**WORK, "command": TRAIN, "run": "agreed", "rehearse": True})
            self.assertFalse(failed, document)
            self.assertEqual(document["run"], "agreed")
            for _ in range(600):
                status, failed = await answer(session, "status", {"run": "agreed"})
                state = status["runs"][0]["state"]
                if state not in ("launching", "running", "interrupted"):
                    break
                await asyncio.sleep(0.5)
            self.assertEqual(state, "completed", status)


async def seconds_of_a_plan():
    """For people: `test_mcp.py --seconds`."""
    async with client() as session:
        for _ in range(5):
            begun = time.perf_counter()
            await session.call_tool("plan", WORK)
            print(f"one plan call: {(time.perf_counter() - begun) * 1000:.0f} ms")


if __name__ == "__main__":
    if "--seconds" in sys.argv:
        asyncio.run(seconds_of_a_plan())
    else:
        unittest.main(verbosity=2)
