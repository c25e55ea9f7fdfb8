"""List and call the tools with LlamaIndex; print their parameters and an answer.

Arguments: the URL of the MCP server."""

import asyncio
import json
import sys

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

FIT = {"model": "acme/tiny", "gpu": "RTX 4090"}


async def main() -> None:
    """Print what the host sees."""
    listed = await McpToolSpec(client=BasicMCPClient(sys.argv[1])).to_tool_list_async()
    tools = {tool.metadata.name: tool for tool in listed}
    output = await tools["check_fit"].acall(**FIT)
    parameters = {
        name: list(tool.metadata.get_parameters_dict()["properties"])
        for name, tool in tools.items()
    }
    answer = json.loads(output.raw_output.content[0].text)
    print(json.dumps({"tools": parameters, "answer": answer}))


asyncio.run(main())
