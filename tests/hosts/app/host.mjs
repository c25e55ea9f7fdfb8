// A host of MCP Apps on the official bridge: draws one resource in a sandboxed frame and hands it
// the result of a tool. What the frame says is added to window.events.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

window.events = [];
window.show = async (html, result) => {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  frame.style.cssText = "width:640px;height:200px;border:0";
  document.body.replaceChildren(frame);
  const bridge = new AppBridge(null, { name: "test-host", version: "1" }, {});
  bridge.oninitialized = () => {
    window.events.push("initialized");
    bridge.sendToolInput({ arguments: {} });
    bridge.sendToolResult(result);
  };
  bridge.onsizechange = ({ height }) => window.events.push(`height ${height}`);
  const connected = bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = html;
  await connected;
};
