"""How ``memplugin replay`` looks: both runs beside each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memplugin.cli.views.parts import facts, heading, line, text

if TYPE_CHECKING:
    from memplugin.diagnosis.replay import Changes, Replay, Run
    from memplugin.records import Json

_CHANGED = "yellow"
_SAME_ANSWER = {True: "the same", False: "not the same", None: "can't be compared"}


def replay_view(done: Replay) -> Iterator[RenderableType]:
    """What was changed, the messages, and both replies."""
    yield heading(f"Replay of decision {done.decision_id}")
    yield facts(
        ("task", text(done.task_id)),
        ("workspace", text(done.workspace_id)),
        ("changed", text(_changes(done.changes, exact=done.exact))),
        ("answers", text(_SAME_ANSWER[done.same_answer], "" if done.same_answer else _CHANGED)),
        *(("note", line(note)) for note in done.notes),
    )
    yield from _messages(done)
    yield heading("Replies")
    yield _replies(done)


def _changes(changes: Changes, *, exact: bool) -> str:
    made = [
        *(f"without {record_id}" for record_id in changes.without),
        *([f"k={changes.k}"] if changes.k is not None else []),
        *([f"policy {changes.policy}"] if changes.policy else []),
        *(
            [f"reasoning of {changes.max_reasoning_chars} characters at most"]
            if changes.max_reasoning_chars
            else []
        ),
        *(["citations of what is shown only"] if changes.cite_by_enum else []),
    ]
    if exact:
        made.append("messages and schema are byte for byte those that were sent")
    return "; ".join(made) or "nothing"


# ---------------------------------------------------------------- messages


def _messages(done: Replay) -> Iterator[RenderableType]:
    for one, other in zip(done.original.messages, done.replayed.messages, strict=True):
        then, now = _said(one), _said(other)
        yield heading(f"{_role(one)} message" + ("" if then == now else ", then and now"))
        if then == now:
            yield Padding(text(then, "dim"), (0, 0, 0, 2))
        else:
            yield _beside(then, now)


def _role(message: Json) -> str:
    kind = str(message["type"])
    return {"human": "User", "ai": "Assistant"}.get(kind, kind.capitalize())


def _said(message: Json) -> str:
    content: Any = message["data"]["content"]
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _beside(then: str, now: str) -> Table:
    """Two texts line by line; what is in one of them only is marked."""
    left, right = then.splitlines(), now.splitlines()
    grid = _two_columns()
    for tag, i, end_i, j, end_j in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        changed = tag != "equal"
        grid.add_row(
            "",
            _block(left[i:end_i], "- ", "red", changed=changed),
            _block(right[j:end_j], "+ ", "green", changed=changed),
        )
    return grid


def _block(lines: list[str], mark: str, style: str, *, changed: bool) -> Text:
    shown = (f"{mark if changed else '  '}{one}" for one in lines)
    return text("\n".join(shown), style if changed else "dim")


# ---------------------------------------------------------------- replies


def _replies(done: Replay) -> Table:
    grid = _two_columns("then", "now")
    for name, then, now in _rows(done.original, done.replayed):
        style = "" if then == now else _CHANGED
        grid.add_row(text(name), text(then, style), text(now, style))
    return grid


def _rows(original: Run, replayed: Run) -> Iterator[tuple[str, str | None, str | None]]:
    for name in ("model", "status", "detail", "reasoning", "considered"):
        one, other = getattr(original, name), getattr(replayed, name)
        if one is not None or other is not None:
            yield name, one, other
    yield "cited", _cited(original), _cited(replayed)
    then, now = original.answer or {}, replayed.answer or {}
    for name in dict.fromkeys([*then, *now]):
        yield name, _value(original.answer, name), _value(replayed.answer, name)


def _cited(run: Run) -> str | None:
    return ", ".join(run.cited_record_ids) or None


def _value(answer: Json | None, name: str) -> str | None:
    if answer is None:
        return None
    return json.dumps(answer.get(name), ensure_ascii=False)


def _two_columns(then: str = "", now: str = "") -> Table:
    grid = Table(
        "", then, now, box=box.SIMPLE_HEAD, show_edge=False, show_header=bool(then), expand=True
    )
    grid.columns[0].style = "dim"
    grid.columns[0].no_wrap = True
    for column in grid.columns[1:]:
        column.ratio, column.overflow = 1, "fold"
    return grid
