"""Everything memplugin raises on purpose.

    MemPluginError
    ├── ConfigError            a setting or an argument that can't work
    │   ├── ContextError       no workspace or session, or two different ones
    │   └── SchemaError        an answer model that can't become a decision schema
    ├── StoreError             the ledger or the index could not do what was asked
    │   ├── StoreVersionError  the ledger's tables are newer or older than this release
    │   ├── EmbedderMismatch   the store was filled with another embedding model
    │   └── RecordNotFound     no such record in this workspace
    ├── EmbedderError          an embedding model gave no usable vector
    │   └── EmbedderUnavailable  … or could not be loaded at all
    ├── TracesUnavailable      a trace backend or file gave nothing to work with
    └── LocalModelUnavailable  the packages of the demo's local model are missing

A message says what was wrong and ends with what to do. Errors of other libraries are
translated where they enter, with the original as ``__cause__``. A model's bad reply is
not an error but a value (``Decision.status``, ``WriteReceipt.reason``).
"""

from __future__ import annotations

from typing import Self


class MemPluginError(Exception):
    """Base of every error raised on purpose by this package."""


class ConfigError(MemPluginError, ValueError):
    """A setting or an argument that can't work."""


class ContextError(ConfigError):
    """A context without a workspace or session, or with two different ones."""


class SchemaError(ConfigError):
    """An answer model that can't become a decision schema."""


class StoreError(MemPluginError):
    """The ledger or the index could not do what was asked."""


class StoreVersionError(StoreError):
    """The ledger's tables do not fit this release."""


class EmbedderMismatch(StoreError):
    """The store was filled with another embedding model."""


class RecordNotFound(StoreError, LookupError):
    """No such record in this workspace."""

    @classmethod
    def of(cls, workspace_id: str, record_id: str) -> Self:
        """The error for a record and a workspace."""
        return cls(
            f"there is no record {record_id!r} in workspace {workspace_id!r}: check both ids "
            "(`memplugin check TEXT` shows ids)."
        )


class EmbedderError(MemPluginError):
    """An embedding model gave no usable vector."""


class EmbedderUnavailable(EmbedderError):
    """An embedding model could not be loaded."""


class TracesUnavailable(MemPluginError):
    """A trace backend or file gave nothing to work with."""


class LocalModelUnavailable(MemPluginError):
    """The packages of the local model are missing."""
