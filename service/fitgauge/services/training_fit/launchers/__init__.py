"""How each training tool is started with the settings of the estimate: one file a tool."""
