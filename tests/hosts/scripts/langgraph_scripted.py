"""Run the example of LangGraph with a scripted model: it calls check_fit, then repeats the answer.

Arguments: the URL of the MCP server, the folder of the examples."""

import asyncio
import json
import sys

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

sys.path.insert(0, sys.argv[2])
from langgraph_agent import answer

FIT = {"model": "acme/tiny", "gpu": "RTX 4090"}
CALL = {"name": "check_fit", "args": FIT, "id": "1", "type": "tool_call"}


class Scripted(BaseChatModel):
    """Calls the tool first, then says the verdict that the tool answered."""

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        assert "check_fit" in {tool.name for tool in tools}
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        last = messages[-1]
        message = AIMessage("", tool_calls=[CALL])
        if last.type == "tool":
            text = last.content if isinstance(last.content, str) else last.content[0]["text"]
            message = AIMessage(json.loads(text)["verdict"])
        return ChatResult(generations=[ChatGeneration(message=message)])


messages = asyncio.run(answer(Scripted(), "Will it fit?", sys.argv[1]))
print(json.dumps([messages[-1].content, [message.type for message in messages]]))
