"""`gpuplan mcp` by clients that others wrote: each lists the tools and asks for a plan. What is not installed is said to be WAIVED."""

import asyncio
import importlib.util
import os

PROGRAM = os.environ["GPUPLAN_PROGRAM"]
ENVIRONMENT = {name: os.environ[name] for name in ("GPUPLAN_HOME", "GPUPLAN_OFFLINE", "PATH")}
WORK = {"model": "llama-3.1-8b", "task": "lora", "tokens": "50M"}


async def fastmcp() -> tuple[int, str]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async with Client(StdioTransport(command=PROGRAM, args=["mcp"], env=ENVIRONMENT)) as client:
        tools = await client.list_tools()
        return len(tools), str((await client.call_tool("plan", WORK)).structured_content)


async def langchain_mcp_adapters() -> tuple[int, str]:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    server = {"command": PROGRAM, "args": ["mcp"], "transport": "stdio", "env": ENVIRONMENT}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"gpuplan": server}).get_tools()}
    return len(tools), str(await tools["plan"].ainvoke(WORK))


async def agents() -> tuple[int, str]:
    from agents.mcp import MCPServerStdio

    async with MCPServerStdio(params={"command": PROGRAM, "args": ["mcp"], "env": ENVIRONMENT}) as server:
        tools = await server.list_tools()
        return len(tools), (await server.call_tool("plan", WORK)).content[0].text


def main() -> None:
    asked = 0
    for client in (fastmcp, langchain_mcp_adapters, agents):
        if importlib.util.find_spec(client.__name__) is None:
            print(f"==> WAIVED {client.__name__}: not installed")
            continue
        tools, plan = asyncio.run(client())
        assert tools == 7 and "recommendation" in plan and "cost_usd" in plan, (client.__name__, tools, plan[:300])
        print(f"{client.__name__}: {tools} tools, a plan of {len(plan)} characters")
        asked += 1
    assert asked, "no client is installed"


if __name__ == "__main__":
    main()
