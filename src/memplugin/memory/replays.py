"""The part of the front door that runs decisions again."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.replay import Changes, Replay
from memplugin.errors import ConfigError
from memplugin.memory import replaying
from memplugin.memory.steps import arun, run
from memplugin.memory.store import Store


class Replays:
    """The methods of ``Memory`` that ask what would have happened."""

    _store: Store

    def replay(
        self,
        decision_id: str,
        *,
        context: MemoryContext,
        model: BaseChatModel,
        without: Iterable[str] = (),
        k: int | None = None,
        policy: str | None = None,
        answer: type[BaseModel] | None = None,
        max_reasoning_chars: int | None = None,
        cite_by_enum: bool = False,
    ) -> Replay:
        """Runs a stored decision again, and shows both runs beside each other.

        With nothing changed the model is sent, byte for byte, the stored messages and
        schema. Nothing is stored and no span is opened: the task's record stays as it is.

        Args:
            decision_id: The decision.
            context: Its workspace counts.
            model: The same model or another one.
            without: Records that are not shown; the rest stays byte for byte the same.
            k: The candidates of then are cut again with another k.
            policy: The query of then is recalled again under another policy, among the
                records that were there then and still are.
            answer: The class that was decided for, to have its validators and defaults;
                without it replies are held against the stored schema.
            max_reasoning_chars: ``maxLength`` of the reasoning fields.
            cite_by_enum: Whether the schema offers only the shown ids as citations. Both
                are for a small model that does not know when to stop.

        Returns:
            Always a replay: a model that fails, refuses or is cut off is a ``status``.

        Raises:
            ConfigError: there is no such decision, or what is to be changed is not in it.
            SchemaError: ``answer`` can't become a decision schema.
            StoreError: the ledger could not answer.
        """
        changes = Changes(_ids(without), k, policy, max_reasoning_chars, cite_by_enum)
        return run(replaying.replay(self._store, decision_id, context, model, changes, answer))

    async def areplay(
        self,
        decision_id: str,
        *,
        context: MemoryContext,
        model: BaseChatModel,
        without: Iterable[str] = (),
        k: int | None = None,
        policy: str | None = None,
        answer: type[BaseModel] | None = None,
        max_reasoning_chars: int | None = None,
        cite_by_enum: bool = False,
    ) -> Replay:
        """``replay``, awaiting the model."""
        changes = Changes(_ids(without), k, policy, max_reasoning_chars, cite_by_enum)
        return await arun(
            replaying.replay(self._store, decision_id, context, model, changes, answer)
        )


def _ids(without: Iterable[str]) -> tuple[str, ...]:
    if isinstance(without, str):
        raise ConfigError(f"without is the text {without!r}: give a list, such as [{without!r}].")
    return tuple(dict.fromkeys(without))
