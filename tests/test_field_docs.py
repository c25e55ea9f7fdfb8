"""Every public field of a struct has its own documentation, under it or in its type."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "service" / "fitgauge"

_STRUCTS = ("Struct", "NamedTuple")


def classes(module: ast.Module) -> Iterator[ast.ClassDef]:
    """Yield the structs, named tuples and dataclasses of a module."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and (
            any(ast.unparse(base).endswith(_STRUCTS) for base in node.bases)
            or any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
        ):
            yield node


def documented_types(module: ast.Module) -> frozenset[str]:
    """Return the names that a module has for types with a text in them."""
    return frozenset(
        ast.unparse(node.targets[0])
        for node in module.body
        if isinstance(node, ast.Assign) and "doc(" in ast.unparse(node.value)
    )


def undocumented(body: list[ast.stmt], types: frozenset[str] = frozenset()) -> list[str]:
    """Return the public fields of a class body without a text under them or in their type.
    types: names of types with one."""
    names = []
    for field, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        in_type = "doc(" in ast.unparse(field) or ast.unparse(field.annotation) in types
        under = (
            isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        )
        if not (in_type or under or field.target.id.startswith("_")):
            names.append(field.target.id)
    return names


def gaps(module: ast.Module) -> list[str]:
    """Return the undocumented fields of a module, as Class.field."""
    types = documented_types(module)
    return [
        f"{each.name}.{name}" for each in classes(module) for name in undocumented(each.body, types)
    ]


MODULES = {
    str(path.relative_to(PACKAGE)): ast.parse(text)
    for path in sorted(PACKAGE.rglob("*.py"))
    if any(word in (text := path.read_text("utf-8")) for word in (*_STRUCTS, "dataclass"))
}
"""The modules that may have fields."""


def test_every_field_has_its_own_documentation() -> None:
    missing = {name: found for name, module in MODULES.items() if (found := gaps(module))}
    assert not missing, missing


def test_the_check_sees_a_field_without_documentation() -> None:
    body = ast.parse('class A:\n    """A."""\n\n    x: int\n    y: int\n    """Why."""\n').body[0]
    assert isinstance(body, ast.ClassDef)
    assert undocumented(body.body) == ["x"]


def test_a_type_may_hold_the_documentation_of_several_fields() -> None:
    module = ast.parse('Size = Annotated[int, doc("A size.")]\nclass A:\n    x: Size\n    y: int\n')
    assert isinstance(module.body[1], ast.ClassDef)
    assert undocumented(module.body[1].body, documented_types(module)) == ["y"]


def test_documented_fields_reach_the_published_documents() -> None:
    """What callers read comes from the same place: the type's description."""
    schemas = json.loads((ROOT / "openapi" / "openapi.json").read_text())["components"]["schemas"]
    own = json.loads((ROOT / "docs" / "own-catalog.schema.json").read_text())["$defs"]
    here = {each.name for module in MODULES.values() for each in classes(module)}
    checked = {**schemas, **own}
    missing = [
        f"{name}.{field}"
        for name in sorted(here & set(checked))
        for field, schema in checked[name].get("properties", {}).items()
        if "description" not in schema
    ]
    assert here & set(schemas)
    assert here & set(own)
    assert not missing, missing
