"""The write hop: proposals, the gate inside the ledger's transaction, then the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from langchain_core.language_models import BaseChatModel
from numpy.typing import NDArray

from memplugin.config import MemoryContext
from memplugin.memory.backend import Backend, log
from memplugin.memory.index import embed, index_records, rows
from memplugin.memory.model_call import ModelCall, Steps
from memplugin.ports import Batch, Rule
from memplugin.records import Known, MemoryRecord, Proposal, Ruling, Turn, WriteReceipt
from memplugin.telemetry import names
from memplugin.telemetry.attributes import written
from memplugin.telemetry.spans import Hop
from memplugin.write.confidence import weigher
from memplugin.write.extraction import extraction_failure, proposals_from
from memplugin.write.extraction_prompt import extraction_messages, extractor_version
from memplugin.write.extraction_schema import ExtractionReply
from memplugin.write.gate import rule

NEAR_NEIGHBOURS = 5
"""How many near records the gate is shown for each proposal."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a batch was taken from: nothing for a plain write."""

    turns: Sequence[Turn] = ()
    extractor: str | None = None
    failure: str | None = None


def store_proposals(
    backend: Backend, context: MemoryContext, proposals: Sequence[Proposal]
) -> list[WriteReceipt]:
    """Settles proposals that a caller made."""
    with backend.tracing.hop(names.UPSERT, context) as hop:
        backend.begin(context, hop)
        return _settle(backend, context, proposals, Said(), hop)


def remember(
    backend: Backend, context: MemoryContext, turns: Sequence[Turn], model: BaseChatModel
) -> Steps[list[WriteReceipt]]:
    """Extracts proposals from the turns no one has read yet, and settles them."""
    version = extractor_version(backend.config)
    hop = backend.tracing.start(names.UPSERT, context)
    try:
        backend.begin(context, hop)
        ids = [turn.id for turn in turns]
        read = backend.ledger.turns.already_read(
            context.workspace_id, context.session_id, ids, version
        )
        unread = [turn for turn in turns if turn.id not in read]
        if not unread:
            receipts = backend.ledger.turns.receipts(
                context.workspace_id, context.session_id, ids, version
            )
            now = backend.clock.now()
            hop.set(
                lambda: written(
                    [],
                    receipts,
                    backend.tracing.content,
                    at=now,
                    turns=0,
                    extractor=version,
                )
            )
            return receipts
        when = _when_said(backend, context, unread)
        turns = [when.get(turn.id, turn) for turn in turns]
        unread = [when.get(turn.id, turn) for turn in unread]
        said = Said(unread, version)
        proposals: Sequence[Proposal] = ()
        if any(turn.role in backend.config.trusted_roles for turn in unread):
            # The session's date is that of its last turn, also when it is read again later.
            now, new = unread[-1].said_at, {turn.id for turn in unread}
            reply = yield ModelCall(
                model,
                ExtractionReply,
                extraction_messages(turns, now=now, config=backend.config, unread_ids=new),
                backend.config.structured_output,
                hop,
            )
            said = replace(said, failure=extraction_failure(reply))
            if said.failure is None:
                proposals = proposals_from(
                    reply, turns, context=context, now=now, config=backend.config, unread_ids=new
                )
            hop.set({names.REQUEST_MODEL: reply.model})
        return _settle(backend, context, proposals, said, hop)
    except BaseException as error:
        hop.failed(error)
        raise
    finally:
        hop.end()


def _when_said(
    backend: Backend, context: MemoryContext, turns: Sequence[Turn]
) -> Mapping[str, Turn]:
    """Turns that were stored before (a better extractor reads them), with their own time."""
    stored = {turn.id: backend.ledger.history.turn(context.workspace_id, turn.id) for turn in turns}
    return {
        turn.id: replace(turn, said_at=known.said_at)
        for turn in turns
        if (known := stored[turn.id])
    }


def _settle(
    backend: Backend, context: MemoryContext, proposals: Sequence[Proposal], said: Said, hop: Hop
) -> list[WriteReceipt]:
    vectors = embedded(backend, proposals)
    batch = batch_of(backend, context, proposals, vectors, said, hop)
    settled = backend.ledger.writes.settle(batch, gate_of(backend), weigher(backend.config))
    backend.metrics.written(proposals, settled.receipts)
    receipts, indexed_at = indexed(backend, settled.receipts, settled.records, vectors)
    hop.set(
        lambda: written(
            proposals,
            receipts,
            backend.tracing.content,
            at=batch.now,
            turns=len(said.turns) if said.extractor else None,
            extractor=said.extractor,
            indexed_at=indexed_at,
        )
    )
    return receipts


def batch_of(
    backend: Backend,
    context: MemoryContext,
    proposals: Sequence[Proposal],
    vectors: Mapping[str, NDArray[np.float32]],
    said: Said,
    hop: Hop,
) -> Batch:
    """Proposals as the ledger takes them, with what is near to them."""
    return Batch(
        context=context,
        proposals=proposals,
        now=backend.clock.now(),
        turns=said.turns,
        extractor=said.extractor,
        keep_turns=backend.config.keep_turns,
        near=_near(backend, context.workspace_id, proposals, vectors) if vectors else {},
        failure=said.failure,
        span=hop.ref,
        seed_strength=backend.config.seed_strength,
    )


def gate_of(backend: Backend) -> Rule:
    """The gate with a store's checks and settings."""

    def gate(proposal: Proposal, known: Known) -> Ruling:
        return rule(proposal, known, backend.config, backend.checks)

    return gate


def embedded(backend: Backend, proposals: Sequence[Proposal]) -> Mapping[str, NDArray[np.float32]]:
    """The vectors of every text of some proposals; none where the model gives none."""
    texts = [p.content for p in proposals if p.content.strip()]
    texts += [p.around for p in proposals if p.around]
    try:
        return embed(backend, texts) if texts else {}
    except Exception as error:  # noqa: BLE001 -- a write must not be lost for want of a vector
        log.warning("stored without vectors, to be indexed later: %s", error)
        return {}


def _near(
    backend: Backend,
    workspace_id: str,
    proposals: Sequence[Proposal],
    vectors: Mapping[str, NDArray[np.float32]],
) -> dict[str, Sequence[tuple[str, float]]]:
    compared = [p for p in proposals if p.content in vectors]
    matrix = rows(vectors, [p.content for p in compared])
    floor = backend.config.near_duplicate
    stored = backend.search.similar(workspace_id, matrix, NEAR_NEIGHBOURS, floor)
    among = matrix @ matrix.T
    near: dict[str, Sequence[tuple[str, float]]] = {}
    for row, proposal in enumerate(compared):
        # Proposals that stand earlier in the batch are known under the ids they would get.
        earlier = np.flatnonzero(among[row, :row] >= floor)
        found = [*stored[row], *((compared[i].record_id, float(among[row, i])) for i in earlier)]
        if found:
            near[proposal.id] = sorted(found, key=lambda hit: -hit[1])
    return near


def indexed(
    backend: Backend,
    receipts: Sequence[WriteReceipt],
    records: Sequence[MemoryRecord],
    vectors: Mapping[str, NDArray[np.float32]],
) -> tuple[list[WriteReceipt], datetime | None]:
    """Puts a batch's records into the index; they stay in the outbox where that fails.

    Args:
        backend: The store.
        receipts: Of the batch.
        records: Those that the index does not hold yet.
        vectors: By text.

    Returns:
        The receipts as they are now, and when the index took the records.
    """
    ready = [record for record in records if record.content in vectors]
    try:
        indexed_at = index_records(backend, ready, vectors)
    except Exception as error:  # noqa: BLE001 -- the ledger has the record: it waits in the outbox
        log.warning("stored, to be indexed later: %s", error)
        return list(receipts), None
    done = {record.id for record in ready}
    return [replace(r, indexed=True) if r.record_id in done else r for r in receipts], indexed_at
