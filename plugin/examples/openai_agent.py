"""An agent of OpenAI's Agents SDK that asks Fitgauge over MCP.

pip install openai-agents:

    print(asyncio.run(answer("gpt-...", "Will Qwen3-32B fit on a 4090?", "http://127.0.0.1:8000/mcp")))
"""

from agents import Agent, Model, Runner
from agents.mcp import MCPServerStreamableHttp

INSTRUCTIONS = (
    "Ask the tools for memory, never guess it. Say the verdict, what was assumed, the command."
)


async def answer(model: str | Model, question: str, url: str) -> str:
    """Return the answer. url: of the MCP server."""
    async with MCPServerStreamableHttp(params={"url": url}, cache_tools_list=True) as fitgauge:
        agent = Agent(
            name="GPU advisor", instructions=INSTRUCTIONS, model=model, mcp_servers=[fitgauge]
        )
        result = await Runner.run(agent, question)
    return str(result.final_output)
