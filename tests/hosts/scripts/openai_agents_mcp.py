"""List and call the tools with OpenAI's Agents SDK, strict schemas on; print their parameters and
an answer.

Arguments: the URL of the MCP server."""

import asyncio
import json
import sys

from agents.mcp import MCPServerStreamableHttp, MCPUtil

FIT = {"model": "acme/tiny", "gpu": "RTX 4090"}


async def main() -> None:
    """Print what the host sees."""
    async with MCPServerStreamableHttp(params={"url": sys.argv[1]}) as server:
        tools = {tool.name: tool for tool in await server.list_tools()}
        functions = [
            MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=True)
            for tool in tools.values()
        ]
        result = await server.call_tool("check_fit", FIT)
        parameters = {tool.name: list(tool.params_json_schema["properties"]) for tool in functions}
        print(json.dumps({"tools": parameters, "answer": json.loads(result.content[0].text)}))


asyncio.run(main())
