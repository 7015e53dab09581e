"""A LangChain retriever over a store."""

from __future__ import annotations

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, InstanceOf

from memplugin.config import MemoryContext
from memplugin.memory.client import Memory
from memplugin.records import Candidate, Retrieval


class MemoryRetriever(BaseRetriever):
    """Gives the memories that a recall shows, as documents in rank order.

    Each call is a stored retrieval, as ``Memory.recall`` makes one. Standing preferences
    and instructions come beside the k best (``MemoryConfig.k_standing``).

    Example::

        retriever = MemoryRetriever(memory=memory, context=context, k=3)
        documents = retriever.invoke("who does pest control at 12 Elm St?")
        documents[0].id, documents[0].metadata["score"]

    Attributes:
        memory: An opened store.
        context: Whose requests these are; a retriever serves one session.
        k: How many are shown by rank.
        kinds: None for every kind.
        policy: None for the configured one.
    """

    memory: InstanceOf[Memory] = Field(exclude=True, repr=False)
    context: InstanceOf[MemoryContext]
    k: int = 3
    kinds: tuple[str, ...] | None = None
    policy: str | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return _documents(
            self.memory.recall(
                query, context=self.context, k=self.k, kinds=self.kinds, policy=self.policy
            )
        )

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return _documents(
            await self.memory.arecall(
                query, context=self.context, k=self.k, kinds=self.kinds, policy=self.policy
            )
        )


def _documents(retrieval: Retrieval) -> list[Document]:
    return [_document(candidate, retrieval) for candidate in retrieval.injected]


def _document(candidate: Candidate, retrieval: Retrieval) -> Document:
    whole = candidate.to_json()
    shown = ("score", "rank", "kind", "scope", "claim", "confidence", "pinned", "occurred_at")
    return Document(
        id=candidate.record_id,
        page_content=candidate.content,
        metadata={
            "id": candidate.record_id,
            **{name: whole[name] for name in shown},
            "sources": list(candidate.sources),
            "retrieval_id": retrieval.id,
        },
    )
