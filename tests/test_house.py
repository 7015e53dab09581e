"""What must always hold of the shape of the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import house

ROOT = Path(__file__).parent.parent
HOUSE = house.modules()
TYPER = "memplugin.cli"
"""Commands document each option in its ``help=``, which the help texts are made of."""


def public_functions(tree: ast.Module) -> Iterator[house.Function]:
    """Functions and methods without an underscore, in classes without one."""
    bodies = [tree.body]
    while bodies:
        for node in bodies.pop():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bodies.append(node.body)
            elif isinstance(node, house.Function) and not node.name.startswith("_"):
                yield node


def documented(function: house.Function) -> bool:
    """Whether a docstring has the arguments, or says where they are.

    An async twin has those of the method that it names, an implementation those of the
    interface that it names, and a check of the gate those of its type.
    """
    text = ast.get_docstring(function) or ""
    twin = isinstance(function, ast.AsyncFunctionDef) and ", awaiting" in text
    of_the_gate = house.parameters(function) == ["proposal", "known", "config"]
    return "Args:" in text or "See ``" in text or twin or of_the_gate


def undocumented() -> list[str]:
    return [
        f"{name}.{function.name}"
        for name, module in HOUSE.items()
        if not name.startswith(TYPER)
        for function in public_functions(module.tree)
        if len(house.parameters(function)) >= 3 and not documented(function)
    ]


def test_no_module_imports_itself_through_others() -> None:
    assert house.cycle(HOUSE) == ()


def test_every_public_function_with_three_parameters_documents_them() -> None:
    assert undocumented() == []


@pytest.mark.parametrize("name", [n for n, m in HOUSE.items() if m.path.name == "__init__.py"])
def test_every_package_says_what_belongs_there(name: str) -> None:
    said = ast.get_docstring(HOUSE[name].tree) or ""
    assert len(said.split()) >= 8, f"{name}: {said!r}"


def test_the_table_of_rooms_names_every_package_and_no_other() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {line.split("`")[1].rstrip("/") for line in text.splitlines() if line.startswith("| `")}
    packages = {
        "/".join(module.path.parent.relative_to(house.PACKAGE).parts)
        for module in HOUSE.values()
        if module.path.name == "__init__.py"
    }
    assert rooms == packages - {""}


def test_a_forwarding_function_is_seen_and_one_that_does_something_is_not() -> None:
    tree = ast.parse(
        "def same(a, b):\n    return other(a, b)\n"
        "def own(self, a):\n    return other(self.x, a)\n"
        "def less(a, b):\n    return other(a)\n"
        "def more(a):\n    return other(a, 1)\n"
        "def nested(a):\n    return other(f(a))\n"
    )
    seen = house.Module("made", Path("made.py"))
    seen.__dict__["tree"] = tree
    assert house.forwarders({"made": seen}) == ["made.same", "made.own"]


def test_the_way_of_a_query_is_followed_to_the_row_that_keeps_it() -> None:
    read, written = house.ways()
    assert read.functions[0] == ("memory/client.py", "Memory.recall")
    assert any(place.startswith("storage/sql/") for place, _ in read.functions)
    assert written.functions[0] == ("memory/client.py", "Memory.write")
    assert ("write/gate.py", "rule") in written.functions
