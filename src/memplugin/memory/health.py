"""The state of a store, and what is wrong with it, as ``memplugin doctor`` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import islice
from pathlib import Path

from memplugin.errors import StoreError, StoreVersionError
from memplugin.memory.open import Location, RecordedEmbedder, recorded_embedder, store_id
from memplugin.ports import VectorIndex
from memplugin.records import Json, Noun
from memplugin.storage import migrations
from memplugin.storage.embedding.model_files import cached_folder, fingerprint_of, own_folder
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.sql.maintenance import WorkspaceSize, shown_url, survey
from memplugin.storage.vector.chroma import ChromaIndex

SHOWN_WORKSPACES = 20
SAMPLED = 100
"""Records of each workspace whose vectors are looked for."""

PACKAGES = (
    "memplugin",
    "langgraph",
    "langchain-core",
    "chromadb",
    "sqlalchemy",
    "sentence-transformers",
    "torch",
    "opentelemetry-sdk",
    "psycopg",
)


@dataclass(frozen=True, slots=True)
class Health(Noun):
    """The state of a store.

    Attributes:
        revision: Of its tables, and the one that this release needs.
        embedder: As the store names it; None before anything was embedded.
        model_here: Whether the command line finds that model; None when it can't tell
            (an embedder that the application brings).
        statistics: Rows, outbox, workspaces; empty when the tables can't be read.
        promoted: Of the largest workspaces, those with an approximate index of their own.
        problems: What is wrong, each with what to do.
    """

    ledger: str
    index: str
    revision: str | None
    needed_revision: str
    embedder: str | None
    model_here: bool | None
    statistics: Json
    workspaces: tuple[WorkspaceSize, ...]
    promoted: tuple[str, ...]
    packages: dict[str, str | None]
    problems: tuple[str, ...]


def examine(location: Location) -> Health:
    """Looks a store over; what can't be opened is a problem, not an error.

    Raises:
        StoreError: there is no store.
    """
    url = location.ledger_url
    with survey(url) as backend:
        revision = backend.revision()
        problems = list(_of_revision(revision))
        workspaces = [] if problems else backend.workspaces(SHOWN_WORKSPACES)
    recorded = None if problems else recorded_embedder(url)
    statistics: Json = {}
    promoted: list[str] = []
    if not problems:
        ledger = SqlLedger.open(url, create=False)
        try:
            statistics = ledger.maintenance.statistics()
            problems += _of_outbox(statistics)
            found, promoted = _of_index(location, ledger, workspaces, recorded)
            problems += found
        finally:
            ledger.close()
    model_here, of_model = _model(recorded)
    return Health(
        ledger=shown_url(url),
        index=str(location.index),
        revision=revision,
        needed_revision=migrations.HEAD,
        embedder=str(recorded) if recorded else None,
        model_here=model_here,
        statistics=statistics,
        workspaces=tuple(workspaces),
        promoted=tuple(promoted),
        packages={name: _version(name) for name in PACKAGES},
        problems=(*problems, *of_model),
    )


def _of_revision(revision: str | None) -> Iterator[str]:
    if revision is None:
        yield "The database holds no ledger: check the URL, or run `memplugin db upgrade`."
        return
    try:
        migrations.check(revision)
    except StoreVersionError as error:
        yield str(error)


def _of_outbox(statistics: Json) -> Iterator[str]:
    if waiting := statistics["outbox"]:
        yield (
            f"{waiting} records wait for the vector index: the application's next Memory.open "
            "or flush() takes them; `memplugin reindex` rebuilds everything."
        )


def _of_index(
    location: Location,
    ledger: SqlLedger,
    workspaces: Sequence[WorkspaceSize],
    recorded: RecordedEmbedder | None,
) -> tuple[list[str], list[str]]:
    indexed = {w.workspace_id: _indexed_ids(ledger, w.workspace_id) for w in workspaces}
    if recorded is None or not any(indexed.values()):
        return [], []
    if isinstance(location.index, Path) and not location.index.is_dir():
        return [f"The index folder {location.index} is gone: run `memplugin reindex`."], []
    try:
        index = ChromaIndex.open(
            location.index, dimension=recorded.dimension, store_id=store_id(ledger)
        )
    except StoreError as error:
        return [str(error)], []
    try:
        promoted = [w.workspace_id for w in workspaces if index.promoted(w.workspace_id)]
        return list(_missing(index, indexed)), promoted
    except StoreError as error:
        return [str(error)], []
    finally:
        index.close()


def _indexed_ids(ledger: SqlLedger, workspace_id: str) -> list[str]:
    entries = ledger.search.changes(workspace_id, since=0)
    return list(islice((e.record_id for e in entries if e.active and e.indexed), SAMPLED))


def _missing(index: VectorIndex, indexed: dict[str, list[str]]) -> Iterator[str]:
    for workspace_id, ids in indexed.items():
        missing = len(ids) - len(index.fetch(workspace_id, ids))
        if missing:
            yield (
                f"Of {len(ids)} records of workspace {workspace_id!r} that should be in the "
                f"index, {missing} are not: run `memplugin reindex`."
            )


def _model(recorded: RecordedEmbedder | None) -> tuple[bool | None, list[str]]:
    if recorded is None:
        return None, []
    folder = own_folder(recorded.name) or cached_folder(recorded.name)
    if folder is None:
        return None, []
    if fingerprint_of(folder) == recorded.fingerprint:
        return True, []
    return False, [
        f"The store was filled with the embedding model {recorded}, and {folder} holds other "
        "weights: bring back the first ones, or run `memplugin reindex`."
    ]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
