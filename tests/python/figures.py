"""How soon an installed package answers: `import gpuplan`, and a plan asked by an agent. In an environment with the package; ends with 1 beyond a limit.

Each figure is the least of several: what else the machine does only adds.
"""

import json
import subprocess
import sys
import time

import gpuplan
from gpuplan.program import program

TIMES = 7
WORK = {"model": "llama-3.1-8b", "task": "lora", "tokens": "50M"}
IMPORT = "import time; begun = time.perf_counter(); import gpuplan; print((time.perf_counter() - begun) * 1000)"


def of_an_import() -> float:
    return min(float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True).stdout) for _ in range(TIMES))


def of_a_call() -> float:
    """`gpuplan mcp` by hand, so that no client's time is counted."""
    server = subprocess.Popen([program(), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin and server.stdout

    def ask(number: int, method: str, **parameters: object) -> dict[str, object]:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        assert answer["id"] == number and "result" in answer, answer
        return answer["result"]

    ask(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "figures", "version": "1"})
    times = []
    for number in range(1, TIMES + 1):
        begun = time.perf_counter()
        result = ask(number, "tools/call", name="plan", arguments=WORK)
        times.append((time.perf_counter() - begun) * 1000)
        assert not result["isError"], result
    server.stdin.close()
    assert server.wait(timeout=10) == 0
    return min(times)


def main() -> int:
    plan = gpuplan.plan(**WORK)
    assert plan.recommendation is not None
    assert len(plan._repr_html_()) > 10_000
    late = 0
    for what, took, most in [("import gpuplan", of_an_import(), 100), ("one plan call of an agent", of_a_call(), 250)]:
        print(f"{what}: {took:.0f} ms, {'within' if took <= most else 'OVER'} the limit of {most} ms")
        late |= took > most
    return late


if __name__ == "__main__":
    sys.exit(main())
