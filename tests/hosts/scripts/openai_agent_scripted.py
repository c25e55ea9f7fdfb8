"""Run the example of OpenAI's Agents SDK with a scripted model: it calls check_fit, then repeats
the answer.

Arguments: the URL of the MCP server, the folder of the examples."""

import asyncio
import json
import sys

from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

sys.path.insert(0, sys.argv[2])
from openai_agent import answer

FIT = {"model": "acme/tiny", "gpu": "RTX 4090"}


class Scripted(Model):
    """Calls the tool first, then says the verdict that the tool answered."""

    async def get_response(self, *positional, **settings):
        items = settings.get("input") or positional[1]
        last = items[-1] if isinstance(items, list) else {}
        if last.get("type") != "function_call_output":
            output = ResponseFunctionToolCall(
                type="function_call", call_id="1", name="check_fit", arguments=json.dumps(FIT)
            )
        else:
            text = last["output"] if isinstance(last["output"], str) else last["output"][0]["text"]
            content = json.loads(text)
            content = json.loads(content["text"]) if "text" in content else content
            verdict = ResponseOutputText(
                type="output_text", text=content["verdict"], annotations=[]
            )
            output = ResponseOutputMessage(
                type="message", id="2", role="assistant", status="completed", content=[verdict]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


set_tracing_disabled(True)
print(json.dumps(asyncio.run(answer(Scripted(), "Will it fit?", sys.argv[1]))))
