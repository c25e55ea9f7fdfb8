"""An agent of LangGraph that asks Fitgauge over MCP.

pip install langchain-mcp-adapters langgraph, and a package with your chat model:

    model = init_chat_model("...")
    print(asyncio.run(answer(model, "Will Qwen3-32B fit on a 4090?", "http://127.0.0.1:8000/mcp")))
"""

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

INSTRUCTIONS = (
    "Ask the tools for memory, never guess it. Say the verdict, what was assumed, the command."
)


async def answer(model: BaseChatModel, question: str, url: str) -> list[BaseMessage]:
    """Return the conversation; its last message is the answer. url: of the MCP server."""
    client = MultiServerMCPClient({"fitgauge": {"transport": "streamable_http", "url": url}})
    tools = await client.get_tools()
    bound = model.bind_tools(tools)

    async def call_model(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    messages = [("system", INSTRUCTIONS), ("user", question)]
    state = await graph.compile().ainvoke({"messages": messages})
    return list(state["messages"])
