"""What a request costs in tokens: as the models report it, else estimated."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from langchain_core.callbacks import get_usage_metadata_callback

from memplugin.diagnosis.task_record import TaskRecord
from memplugin.evaluation.results import Cost
from memplugin.memory.store import Store
from memplugin.records import Json


@dataclass(slots=True)
class Spent:
    """Tokens that models reported in a block; counted when it ends."""

    sent: int = 0
    received: int = 0

    @property
    def total(self) -> int:
        """Both ways."""
        return self.sent + self.received


@contextmanager
def tokens_spent() -> Generator[Spent]:
    """Counts what models report while a block lasts, whoever calls them in it."""
    spent = Spent()
    with get_usage_metadata_callback() as callback:
        yield spent
    for usage in callback.usage_metadata.values():
        spent.sent += usage["input_tokens"]
        spent.received += usage["output_tokens"]


def cost_of(
    store: Store, record: TaskRecord, spent: Spent, answer_ms: float, question: str, answer: Json
) -> Cost:
    """The cost of one answer.

    Args:
        store: Its ledger has what was sent, its config counts.
        record: Of the task, after that answer.
        spent: What models reported meanwhile.
        answer_ms: How long it took.
        question: What was asked.
        answer: What came back.
    """
    count = store.config.count_tokens
    shown = record.retrieval.candidates if record.retrieval else ()
    cost = Cost(
        answer_ms=answer_ms,
        tokens_in=spent.sent,
        tokens_out=spent.received,
        tokens_of_memory=sum(count(c.content or "") for c in shown if c.injected),
    )
    if spent.total:
        return cost
    decision_id = record.use.decision_id
    decision = store.ledger.decision(record.workspace_id, decision_id) if decision_id else None
    sent = (
        [str(message["data"]["content"]) for message in decision.sent] if decision else [question]
    )
    said = [decision.reasoning, decision.considered] if decision else []
    received = [*(text for text in said if text), json.dumps(answer)]
    return replace(
        cost,
        tokens_in=sum(map(count, sent)),
        tokens_out=sum(map(count, received)),
        estimated=True,
    )


def added(one: Cost, other: Cost) -> Cost:
    """A first answer's cost, and the tokens that a later one cost beside it."""
    return replace(
        one,
        tokens_in=one.tokens_in + other.tokens_in,
        tokens_out=one.tokens_out + other.tokens_out,
    )
