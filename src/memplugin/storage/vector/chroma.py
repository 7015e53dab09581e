"""The vectors in Chroma: embedded in a folder, or a Chroma server.

All vectors are in one shared collection, from which they are read by id and never
searched: a metadata filter or a collection for each workspace costs tens of
milliseconds. A large workspace gets an approximate index (HNSW) of its own beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from memplugin.errors import StoreError
from memplugin.ports import Vectors
from memplugin.text import digest

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

PREFIX = "memplugin-"
"""How names of our collections begin; the store's own follows, so that several stores can
be on one server and none touches another's."""

FETCH = 500
"""Rows a ``get`` asks for: the fastest of 100 to 20,000; far larger ones fail whole."""

WRITE = 1_000
"""Rows an ``upsert`` or ``delete`` sends, where Chroma does not allow less."""

PATIENCE = 60.0
"""Seconds to wait for a server's answer."""

NEVER_SEARCHED = {"space": "cosine", "max_neighbors": 2, "ef_construction": 10, "ef_search": 10}
"""Chroma links every vector into a graph. Nothing searches this one: the least will do,
and halves the time of an upsert."""

SEARCHED = {"space": "cosine", "max_neighbors": 16, "ef_construction": 100, "ef_search": 400}
"""Chroma's own graph, searched four times as widely: recall@20 1.000 instead of 0.997, and
no worse after every row was replaced several times. A denser graph takes twice as long to
build and finds no more."""


class ChromaIndex:
    """``VectorIndex`` over Chroma.

    Safe in threads; Chroma's own client is, and ``promote`` takes turns with writes chunk
    by chunk. Several processes need a Chroma server: embedded Chroma is for one.
    """

    def __init__(
        self, client: ClientAPI, not_found: type[Exception], dimension: int, store_id: str
    ) -> None:
        self._client = client
        self._not_found = not_found
        self._dimension = dimension
        self._prefix = f"{PREFIX}{digest(store_id, length=12)}-"
        self._writing = RLock()
        self._closed = False
        self._write = min(WRITE, client.get_max_batch_size())

    @classmethod
    def open(cls, path_or_url: Path | str, *, dimension: int, store_id: str) -> Self:
        """Opens a folder (made when it is not there) or a server (``http://host:port``).

        Credentials of a server are read by chromadb itself, from ``CHROMA_CLIENT_AUTH_*``.
        Whether what is there fits (cosine, dimension) is checked at the first use, so that
        ``clear`` can be called on an index that does not.

        Args:
            path_or_url: A folder, or the URL of a Chroma server.
            dimension: Length of a vector.
            store_id: The store's own id, which keeps stores on one server apart.

        Returns:
            The opened index.

        Raises:
            StoreError: the folder or the server can't be used.
        """
        # Heavy: chromadb takes most of a second to import.
        import chromadb.errors  # noqa: PLC0415 -- see above

        with _translated(f"could not open the index at {path_or_url}"):
            return cls(
                _client(str(path_or_url)), chromadb.errors.NotFoundError, dimension, store_id
            )

    # ------------------------------------------------------------ the port

    def upsert(self, workspace_id: str, keys: Sequence[str], vectors: Vectors) -> None:
        """Stores vectors, replacing those under the same keys.

        Args:
            workspace_id: The workspace, compared by equality.
            keys: One for each vector.
            vectors: Rows of length 1, shape (n, dimension).
        """
        rows = np.asarray(vectors, dtype=np.float32)
        if rows.shape != (len(keys), self._dimension):
            raise StoreError(
                f"{len(keys)} keys came with vectors of shape {rows.shape}, expected "
                f"({len(keys)}, {self._dimension}): embed them with the store's own model, "
                "or run `memplugin reindex` after changing it."
            )
        # The last one of a repeated key wins, as it would in two calls.
        last = {key: row for row, key in enumerate(keys)}
        with _translated("could not write to the index"), self._writing:
            for chunk in _chunks(list(last), self._write):
                part = rows[[last[key] for key in chunk]]
                for collection in self._collections(workspace_id):
                    collection.upsert(ids=chunk, embeddings=cast(Any, part))

    def delete(self, workspace_id: str, keys: Sequence[str]) -> None:
        """Removes vectors; unknown keys are no error."""
        with _translated("could not delete from the index"), self._writing:
            for chunk in _chunks(list(dict.fromkeys(keys)), self._write):
                for collection in self._collections(workspace_id):
                    collection.delete(ids=chunk)
            if keys and (own := self._own(workspace_id)):
                _note_removed(own, len(keys))

    def fetch(self, workspace_id: str, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors under these keys; unknown keys are absent."""
        found: dict[str, NDArray[np.float32]] = {}
        with _translated("could not read the index"):
            for chunk in _chunks(list(dict.fromkeys(keys)), FETCH):
                answer = self._shared().get(ids=chunk, include=["embeddings"])
                rows = np.asarray(answer["embeddings"], dtype=np.float32)
                found.update(zip(answer["ids"], rows, strict=True))
        return found

    def promoted(self, workspace_id: str) -> bool:
        """Whether the workspace has an approximate index of its own, whole and not worn."""
        with _translated("could not read the index"):
            own = self._own(workspace_id)
        return own is not None and not _worn(own)

    def promote(self, workspace_id: str, keys: Callable[[], Sequence[str]]) -> None:
        """Gives a workspace its own approximate index, from its keys' vectors.

        Writes from other threads go on meanwhile, between the chunks.
        """
        with _translated("could not build a workspace's own index"):
            with self._writing:
                if self.promoted(workspace_id):
                    return
                if self._own(workspace_id):
                    self._client.delete_collection(self._name(workspace_id))
                own = self._make(self._name(workspace_id), SEARCHED)
            for chunk in _chunks(list(dict.fromkeys(keys())), min(FETCH, self._write)):
                self._copy(workspace_id, chunk, own)
            own.modify(metadata={"dimension": self._dimension, "built": own.count(), "removed": 0})

    def _copy(self, workspace_id: str, keys: Sequence[str], own: Collection) -> None:
        # In one turn: a vector deleted before is not found, one deleted after is deleted
        # from both collections.
        with self._writing:
            found = self.fetch(workspace_id, keys)
            if found:
                own.upsert(ids=list(found), embeddings=cast(Any, np.stack(list(found.values()))))

    def nearest(
        self, workspace_id: str, vector: NDArray[np.float32], n: int
    ) -> list[tuple[str, float]]:
        """The n keys nearest to a vector in a promoted workspace, best first: (key, cosine).

        Args:
            workspace_id: The workspace, compared by equality.
            vector: Of length 1, shape (dimension,).
            n: How many to name at most.

        Returns:
            (key, cosine), best first.
        """
        with _translated("could not search the index"):
            own = self._own(workspace_id)
            if own is None:
                raise StoreError(
                    "the workspace has no approximate index: call promote() before nearest()."
                )
            answer = own.query(
                query_embeddings=cast(Any, np.asarray(vector, dtype=np.float32)[None]),
                n_results=n,
                include=["distances"],
            )
        distances = (answer["distances"] or [[]])[0]
        pairs = zip(answer["ids"][0], distances, strict=True)
        return [(key, 1.0 - float(distance)) for key, distance in pairs]

    def clear(self) -> None:
        """Removes everything of memplugin's, and nothing else the server may hold."""
        with _translated("could not empty the index"), self._writing:
            for name in list(self._names()):
                self._client.delete_collection(name)

    def close(self) -> None:
        """Gives back the folder or the connection. What comes after raises ``StoreError``."""
        if self._closed:
            return
        self._closed = True
        with _translated("could not close the index"):
            cast(Any, self._client).close()  # of Client, not declared by ClientAPI
            for session in _http_sessions(self._client):
                session.close()

    # ------------------------------------------------------------ collections

    def _collections(self, workspace_id: str) -> list[Collection]:
        own = self._own(workspace_id)
        return [self._shared(), own] if own else [self._shared()]

    def _shared(self) -> Collection:
        name = self._prefix + "vectors"
        return self._look_up(name) or self._make(name, NEVER_SEARCHED)

    def _name(self, workspace_id: str) -> str:
        # Chroma allows few characters in a name, and a user's text must not show in it.
        return self._prefix + digest(workspace_id)

    def _own(self, workspace_id: str) -> Collection | None:
        return self._look_up(self._name(workspace_id))

    def _look_up(self, name: str) -> Collection | None:
        # Never kept between calls: it is only an id, and another process may have cleared
        # the server since (reindex). Without embedding_function=None, Chroma would attach
        # its default one, which downloads a model.
        try:
            return self._checked(self._client.get_collection(name, embedding_function=None))
        except self._not_found:
            return None

    def _make(self, name: str, graph: dict[str, Any]) -> Collection:
        # One that is there already keeps its own space and metadata, whatever is asked.
        made = self._client.get_or_create_collection(
            name,
            configuration=cast(Any, {"hnsw": graph}),
            metadata={"dimension": self._dimension},
            embedding_function=None,
        )
        return self._checked(made)

    def _checked(self, collection: Collection) -> Collection:
        graph = cast(dict[str, Any], collection.configuration_json.get("hnsw") or {})
        space = graph.get("space")
        dimension = (collection.metadata or {}).get("dimension")
        if space != "cosine" or dimension != self._dimension:
            raise StoreError(
                f"the index holds vectors of {dimension} dimensions compared by {space}, the "
                f"store needs {self._dimension} by cosine: run `memplugin reindex`."
            )
        return collection

    def _names(self) -> Iterator[str]:
        offset, page = 0, 100
        while listed := self._client.list_collections(limit=page, offset=offset):
            yield from (c.name for c in listed if c.name.startswith(self._prefix))
            offset += page


def _client(path_or_url: str) -> ClientAPI:
    # Heavy: chromadb takes most of a second to import.
    import chromadb  # noqa: PLC0415 -- see above
    from chromadb.config import Settings  # noqa: PLC0415 -- see above

    settings = Settings(anonymized_telemetry=False)
    if not path_or_url.startswith(("http://", "https://")):
        return chromadb.PersistentClient(path_or_url, settings=settings)
    url = urlsplit(path_or_url)
    if not url.hostname or url.path.strip("/") or url.query or url.username:
        raise StoreError(
            f"{path_or_url!r} is not a Chroma server: give http(s)://host:port and nothing else."
        )
    ssl = url.scheme == "https"
    port = url.port or (443 if ssl else 8000)
    client = chromadb.HttpClient(host=url.hostname, port=port, ssl=ssl, settings=settings)
    for session in _http_sessions(client):
        session.timeout = PATIENCE
    return client


def _http_sessions(client: ClientAPI) -> list[Any]:
    # Chroma's own client waits for ever, and leaves its connections open when it is closed.
    # There is no public way to either: with a release that names these otherwise, that is
    # how it would be again.
    clients = (client, getattr(client, "_admin_client", None))
    sessions = [getattr(getattr(c, "_server", None), "_session", None) for c in clients]
    return [session for session in sessions if session is not None]


def _worn(own: Collection) -> bool:
    # "built" is written last: without it the build was interrupted. A row that is removed
    # stays in the graph as a mark, and slows every search: after five times as many removals
    # as rows, 4 times (recall does not suffer). So it is built anew once there are more
    # marks than there were rows, which costs each removal one insertion.
    facts = own.metadata or {}
    return "built" not in facts or int(facts["removed"]) > int(facts["built"])


def _note_removed(own: Collection, count: int) -> None:
    facts = own.metadata or {}
    if "built" in facts:
        own.modify(metadata={**facts, "removed": int(facts["removed"]) + count})


def _chunks(keys: Sequence[str], size: int) -> Iterator[list[str]]:
    rest = iter(keys)
    while chunk := list(islice(rest, size)):
        yield chunk


@contextmanager
def _translated(what: str) -> Generator[None]:
    try:
        yield
    except StoreError:
        raise
    except Exception as error:  # chromadb raises its own, httpx's, ValueError, AttributeError …
        raise StoreError(
            f"{what}: {type(error).__name__}: {error}. Check that the folder can be written "
            "by one process, or that the server runs; if the index is damaged, delete it and "
            "run `memplugin reindex`: the ledger has everything."
        ) from error
