"""A FastAPI service whose memory is in PostgreSQL: one store for every worker and machine.

In production the ledger is a PostgreSQL database and the index a Chroma server::

    open_memory = lambda: Memory.open(
        ledger_url="postgresql+psycopg://app@db/memory", index_url="http://chroma:8000"
    )

``python examples/fastapi_app.py`` tries it without a server or a key, on a PostgreSQL of its
own (needs ``pip install fastapi httpx pgserver``), a fake index and a scripted model.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin import Memory, MemoryContext
from memplugin.testing import ScriptedChatModel, memory_for_tests

NEEDED = ("fastapi", "httpx", "pgserver")


class VendorChoice(BaseModel):
    """What the agent decides: who is sent."""

    vendor_id: str


def create_app(open_memory: Callable[[], Memory], model: BaseChatModel) -> Any:
    """The service: ``PUT`` a fact, ``POST`` a question."""
    from fastapi import FastAPI

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        with open_memory() as app.state.memory:  # opened once for each worker
            yield

    app = FastAPI(lifespan=lifespan)

    @app.put("/{workspace}/facts")
    async def remember(workspace: str, session: str, fact: str) -> dict[str, Any]:
        context = MemoryContext(workspace, session)
        receipt = await app.state.memory.awrite(fact, context=context)
        return {"record_id": receipt.record_id, "ruling": receipt.ruling}

    @app.post("/{workspace}/dispatch")
    async def dispatch(workspace: str, session: str, task: str, question: str) -> dict[str, Any]:
        context = MemoryContext(workspace, session, task_id=task)
        retrieval = await app.state.memory.arecall(question, context=context)
        decision = await app.state.memory.adecide(
            question, context=context, answer=VendorChoice, model=model, retrieval=retrieval
        )
        return {"answer": decision.answer, "cited": decision.cited_record_ids}

    return app


def first_vendor(messages: list[Any]) -> dict[str, Any]:
    """Stands for a model: it sends Primex where a memory names it."""
    named = "Primex" in messages[-1].text
    return {
        "memory_reasoning": "It names Primex." if named else "Nothing names a vendor.",
        "considered": "dever",
        "cited_record_ids": [],
        "vendor_id": "primex" if named else "dever",
    }


def main() -> None:
    """Asks the service before and after it was told a fact."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        print(f"this example needs: pip install {' '.join(missing)}")
        return
    import pgserver
    from fastapi.testclient import TestClient

    with tempfile.TemporaryDirectory() as folder, pgserver.get_server(folder) as server:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        app = create_app(lambda: memory_for_tests(url), ScriptedChatModel(first_vendor))
        with TestClient(app) as client:
            request = {"session": "s_1", "question": "Wasps at 12 Elm St: whom do we send?"}
            before = client.post("/ws_1/dispatch", params={**request, "task": "order_1"}).json()
            client.put("/ws_1/facts", params={"session": "s_1", "fact": "Pests go to Primex."})
            after = client.post("/ws_1/dispatch", params={**request, "task": "order_2"}).json()
    print("before:", before["answer"]["vendor_id"])
    print("after:", after["answer"]["vendor_id"])


if __name__ == "__main__":
    main()
