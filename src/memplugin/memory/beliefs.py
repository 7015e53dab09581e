"""The part of the front door that is about beliefs."""

from __future__ import annotations

from memplugin.config import MemoryContext
from memplugin.memory import believing
from memplugin.memory.steps import in_thread
from memplugin.memory.store import Store
from memplugin.records import Claim, Evidence, MemoryRecord, Resolved


class Beliefs:
    """The methods of ``Memory`` on what it believes, and how surely."""

    _store: Store

    def observe(
        self,
        record_id: str,
        *,
        context: MemoryContext,
        supports: bool = True,
        weight: float = 1.0,
        salience: float = 0.5,
        note: str | None = None,
        claim: Claim | None = None,
    ) -> MemoryRecord:
        """Says how a record turned out: evidence, from which its confidence follows.

        An observation against a record from a request with a narrower scope makes or
        strengthens a record with that scope, and does not lower this one before
        ``specialisations_to_lower`` distinct narrower scopes have contradicted it. One with
        another claim in the record's own scope takes its place once the record has fallen
        below ``min_confidence``.

        The same observation in the same session, task and attempt (same record, scope,
        supports, claim and note) is counted once, since a node may run again; to count it
        twice, say what differs in the note.

        Args:
            record_id: What was observed.
            context: Of the request in which it was; its scope says where.
            supports: Whether it turned out as the record says.
            weight: How much this says about the record, 0 to 100.
            salience: How much it stood out, 0 to 1.
            note: What was seen, in your words; the content of a narrower record it makes.
            claim: What was observed instead, for ``supports=False``.

        Returns:
            The observed record, as it stands now.

        Raises:
            RecordNotFound: no such record in this workspace.
            ConfigError: an argument can't be used, or the record is about another request.
            StoreError: the record is not active, or nothing was stored.
        """
        arguments = {
            "supports": supports,
            "weight": weight,
            "salience": salience,
            "note": note,
            "claim": claim,
        }
        return believing.observe(self._store, context, record_id, arguments)

    def observations(self, record_id: str, *, context: MemoryContext) -> list[Evidence]:
        """Everything observed of a record, by salience, weight and recency.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        return believing.observations(self._store, context, record_id)

    def pin(self, record_id: str, *, context: MemoryContext) -> MemoryRecord:
        """Freezes a record's confidence: evidence is kept, and nothing moves.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: the record is not active.
        """
        return believing.set_pinned(self._store, context, record_id, pinned=True)

    def unpin(self, record_id: str, *, context: MemoryContext) -> MemoryRecord:
        """Lets a record's confidence follow its evidence again, also what came meanwhile.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: the record is not active.
        """
        return believing.set_pinned(self._store, context, record_id, pinned=False)

    def resolve(self, field: str, *, context: MemoryContext) -> Resolved | None:
        """The value that memory has for a field, without a model.

        Of the active records that apply and claim the field, the one with the most
        specific scope counts, then pinned, then confidence, then the newest.

        Args:
            field: Of a claim, such as ``vendor_id``.
            context: Whose request it is; its scope decides what applies.

        Returns:
            None when nothing that applies claims the field.

        Raises:
            ConfigError: the field is no name.
            StoreError: the ledger could not answer.
        """
        return believing.resolve(self._store, context, field)

    aobserve = in_thread(observe)
    aobservations = in_thread(observations)
    apin = in_thread(pin)
    aunpin = in_thread(unpin)
    aresolve = in_thread(resolve)
