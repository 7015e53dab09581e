"""The shape of the code: how many modules, what they import, and the way of a text through them.

Everything is read from the files of ``src`` but the two ways, which are followed while a
memory in a temporary store is written and recalled.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, cast

import memplugin
from benchmarks.results import Figure, Part, Target
from memplugin import MemoryContext
from memplugin.testing import memory_for_tests

PACKAGE = Path(memplugin.__file__).parent
WORD = "quixotic"
"""Marks the text that is followed through the code."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclasses.dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path

    @cached_property
    def lines(self) -> list[str]:
        """The file, line by line."""
        return self.path.read_text(encoding="utf-8").splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        """The file, parsed."""
        return ast.parse("\n".join(self.lines))


def modules(package: Path = PACKAGE) -> dict[str, Module]:
    """Every module of a package by its dotted name, ``__init__`` under the package's own."""
    found: dict[str, Module] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path)
    return found


def imports(
    house: Mapping[str, Module], *, at_import_time: bool = False
) -> dict[str, frozenset[str]]:
    """Which modules of the house each module imports.

    Args:
        house: The modules, by name.
        at_import_time: Leave out imports inside functions and under ``TYPE_CHECKING``.

    Returns:
        For each module the names of the modules that it imports.
    """
    return {
        name: frozenset(_imported(module, house, at_import_time=at_import_time)) - {name}
        for name, module in house.items()
    }


def _imported(
    module: Module, house: Mapping[str, Module], *, at_import_time: bool
) -> Iterator[str]:
    nodes = module.tree.body if at_import_time else ast.walk(module.tree)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in house:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in house else cast(str, node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in house)


def import_lines(module: Module) -> int:
    """How many lines of a file are import statements."""
    statements = (n for n in ast.walk(module.tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return sum((n.end_lineno or n.lineno) - n.lineno + 1 for n in statements)


def cycle(house: Mapping[str, Module]) -> Sequence[str]:
    """One circle of imports; none when there is none."""
    try:
        TopologicalSorter(imports(house, at_import_time=True)).prepare()
    except CycleError as error:
        return cast(Sequence[str], error.args[1])
    return ()


def parameters(function: Function) -> list[str]:
    """The names of a function's parameters, without ``self`` and ``cls``."""
    named = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return [one.arg for one in named if one.arg not in ("self", "cls")]


def forwarders(house: Mapping[str, Module]) -> list[str]:
    """Functions whose whole body hands their own arguments, unchanged, to one call."""
    return [
        f"{module.name}.{node.name}"
        for module in house.values()
        for node in ast.walk(module.tree)
        if isinstance(node, Function) and _only_forwards(node)
    ]


def _only_forwards(function: Function) -> bool:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    value = body[0].value
    call = value.value if isinstance(value, ast.Await) else value
    mine = parameters(function)
    if not isinstance(call, ast.Call) or not mine or function.decorator_list:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    names = [node.id for node in given if isinstance(node, ast.Name)]
    held = [node for node in given if isinstance(node, ast.Attribute)]
    return sorted(names) == sorted(mine) and len(names) + len(held) == len(given)


# ------------------------------------------------------------ the way of a text


@dataclasses.dataclass
class Way:
    """The functions of the package that were handed a text, in the order of their first call."""

    functions: list[tuple[str, str]] = dataclasses.field(default_factory=list[tuple[str, str]])

    @property
    def borders(self) -> int:
        """How often the way goes from one package of the house into another."""
        rooms = [Path(file).parts[0] for file, _ in self.functions]
        return sum(one != other for one, other in pairwise(rooms))

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Notes a call; for ``sys.setprofile``."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        count = code.co_argcount + code.co_kwonlyargcount
        given = [frame.f_locals.get(name) for name in code.co_varnames[:count] if name != "self"]
        place = (str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname)
        if place not in self.functions and any(map(_has_the_word, given)):
            self.functions.append(place)


def _has_the_word(value: Any, depth: int = 0) -> bool:
    if isinstance(value, str):
        return WORD in value
    if depth > 2:
        return False
    if isinstance(value, Mapping):
        parts: list[Any] = list(cast(Mapping[Any, Any], value).values())
    elif isinstance(value, list | tuple | set | frozenset):
        parts = list(cast(Sequence[Any], value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    else:
        return False
    return any(_has_the_word(part, depth + 1) for part in parts[:20])


def followed(call: Callable[[], object]) -> Way:
    """Runs a call and returns the way of the marked text through the package."""
    way = Way()
    sys.setprofile(way.profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return way


def ways() -> tuple[Way, Way]:
    """The way of a query from ``Memory.recall``, and of a text from ``Memory.write``."""
    context = MemoryContext("ws_8841", "s_1")
    with memory_for_tests() as memory:
        memory.write("Reports are wanted net of tax.", context=context)
        memory.recall("tax", context=context)
        read = followed(lambda: memory.recall(f"{WORD} tax reports", context=context))
        written = followed(lambda: memory.write(f"A {WORD} report is wanted.", context=context))
    return read, written


def run() -> Part:
    """Measures the house."""
    house = modules()
    importers = Counter(name for names in imports(house).values() for name in names)
    lines = sum(len(module.lines) for module in house.values())
    longest = max(house.values(), key=lambda module: len(module.lines))
    circle = cycle(house)
    forwarding = forwarders(house)
    read, written = ways()
    figures = [
        Figure("modules", len(house), "", target=Target(180)),
        Figure("lines", lines, "", target=Target(33_000)),
        Figure(
            "lines that import",
            100 * sum(map(import_lines, house.values())) / lines,
            "%",
            target=Target(6),
        ),
        Figure(
            "modules with exactly one importer",
            sum(count == 1 for count in importers.values()),
            "",
            target=Target(25),
        ),
        Figure("functions that only forward", len(forwarding), "", target=Target(10)),
        Figure("import cycles", float(bool(circle)), "", target=Target(0), note=" → ".join(circle)),
        Figure("longest module", len(longest.lines), "lines", note=longest.name),
        Figure("functions that a query is handed to", len(read.functions), "", target=Target(17)),
        Figure("package borders that the query crosses", read.borders, "", target=Target(7)),
        Figure("functions that a text is handed to", len(written.functions), "", target=Target(32)),
        Figure("package borders that the text crosses", written.borders, ""),
    ]
    about = (
        "src/memplugin. The last four count the package's functions that were handed the text, "
        "or something that holds it, from Memory.recall and Memory.write to the stored row."
    )
    return Part("house", about, figures)
