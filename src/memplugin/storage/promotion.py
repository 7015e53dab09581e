"""Gives large workspaces an approximate index of their own, in the background."""

from __future__ import annotations

import logging
from threading import Lock, Thread

from memplugin.errors import StoreError
from memplugin.ports import AROUND, Ledger, VectorIndex

log = logging.getLogger("memplugin")


class Promotion:
    """Builds indexes one thread for each workspace, at most once at a time.

    A build takes a millisecond for each record or more. A search does not wait for it: it
    stays exact until the index is there.
    """

    def __init__(self, ledger: Ledger, index: VectorIndex) -> None:
        self._ledger = ledger
        self._index = index
        self._lock = Lock()
        self._tried: set[str] = set()

    def ready(self, workspace_id: str) -> bool:
        """Whether the index is there; begins to build it when it is not."""
        if self._index.promoted(workspace_id):
            return True
        with self._lock:
            begun = workspace_id in self._tried
            self._tried.add(workspace_id)
        if not begun:
            # A daemon: the process may end meanwhile, and the build starts again next time.
            Thread(
                target=self._try, args=(workspace_id,), name="memplugin-promote", daemon=True
            ).start()
        return False

    def promote(self, workspace_id: str) -> None:
        """Builds the index now.

        Raises:
            StoreError: the ledger or the index did not answer.
        """
        self._index.promote(workspace_id, lambda: self._keys(workspace_id))

    def _try(self, workspace_id: str) -> None:
        try:
            self.promote(workspace_id)
        except StoreError as error:
            # Stays among those tried: one attempt for each opening of the store.
            log.warning("a large workspace is searched exactly, which is slower: %s", error)
        else:
            with self._lock:
                self._tried.discard(workspace_id)  # it may wear out, and be built anew

    def _keys(self, workspace_id: str) -> list[str]:
        # Also of records whose vectors are on their way: some of them are there by now.
        active = [e for e in self._ledger.directory(workspace_id, 0) if e.active]
        return [e.record_id for e in active] + [
            e.record_id + AROUND for e in active if e.has_around
        ]
