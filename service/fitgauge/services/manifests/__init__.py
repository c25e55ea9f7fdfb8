"""Model servers in manifests: text in, one question of the API a server out.

`yaml_text.py` reads a bounded YAML, `workloads.py`, `charts.py` and `compose.py` find containers,
`command_line.py` the engine's command in them, `gpus.py` the GPUs they ask for, `questions.py`
makes requests, `service.py` answers them, `sarif.py` and `markdown.py` write reports."""
