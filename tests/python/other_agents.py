"""`gpuplan mcp` by a client that others wrote, named by its package: it lists the tools and asks for a plan. `other_agents.py fastmcp`"""

import asyncio
import os
import sys

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


async def openai_agents() -> tuple[int, str]:
    from agents.mcp import MCPServerStdio

    async with MCPServerStdio(params={"command": PROGRAM, "args": ["mcp"], "env": ENVIRONMENT}) as server:
        tools = await server.list_tools()
        return len(tools), (await server.call_tool("plan", WORK)).content[0].text


def main() -> None:
    name = sys.argv[1]
    client = {"fastmcp": fastmcp, "langchain-mcp-adapters": langchain_mcp_adapters, "openai-agents": openai_agents}[name]
    tools, plan = asyncio.run(client())
    assert tools == 7 and "recommendation" in plan and "cost_usd" in plan, (name, tools, plan[:300])
    print(f"{name}: {tools} tools, a plan of {len(plan)} characters")


if __name__ == "__main__":
    main()
