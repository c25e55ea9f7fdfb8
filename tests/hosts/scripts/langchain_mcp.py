"""List and call the tools with LangChain's MCP adapters; print their parameters and an answer.

Arguments: the URL of the MCP server."""

import asyncio
import json
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient

FIT = {"model": "acme/tiny", "gpu": "RTX 4090"}


async def main() -> None:
    """Print what the host sees."""
    client = MultiServerMCPClient(
        {"fitgauge": {"transport": "streamable_http", "url": sys.argv[1]}}
    )
    tools = {tool.name: tool for tool in await client.get_tools()}
    content = await tools["check_fit"].ainvoke(FIT)
    text = content if isinstance(content, str) else content[0]["text"]
    parameters = {name: list(tool.args_schema["properties"]) for name, tool in tools.items()}
    print(json.dumps({"tools": parameters, "answer": json.loads(text)}))


asyncio.run(main())
