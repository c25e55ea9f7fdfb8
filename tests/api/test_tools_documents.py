"""The document of the tools in both versions of OpenAPI."""

from fitgauge.api.tools_document import VERSION, VERSION_30, tools_document


def test_the_documents_differ_in_their_version_alone(http):
    newer, older = (http.get(f"/tools/{name}.json").json() for name in ("openapi", "openapi-3.0"))
    assert (newer.pop("openapi"), older.pop("openapi")) == (VERSION, VERSION_30)
    assert newer == older


def test_openapi_30_takes_the_document():
    """It wants at least one name in `required`, one type a node and no null."""

    def nodes(node):
        yield node
        inner = node.values() if isinstance(node, dict) else node
        for one in inner if isinstance(node, dict | list) else ():
            yield from nodes(one)

    for node in nodes(tools_document(version=VERSION_30)):
        if isinstance(node, dict):
            assert node.get("required") != []
            assert not isinstance(node.get("type"), list)
            assert node.get("type") != "null"
