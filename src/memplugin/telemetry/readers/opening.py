"""Which backend to read from, as a user writes it."""

from __future__ import annotations

from collections.abc import Mapping

from memplugin.errors import ConfigError
from memplugin.telemetry.readers.jaeger import Jaeger
from memplugin.telemetry.readers.model import Source
from memplugin.telemetry.readers.otlp import OtlpFile
from memplugin.telemetry.readers.tempo import Tempo


def open_source(place: str, headers: Mapping[str, str] | None = None) -> Source:
    """Opens ``otlp:FILE``, ``jaeger:URL`` or ``tempo:URL``.

    Raises:
        ConfigError: it is none of these, or the file can't be read.
    """
    kind, _, where = place.partition(":")
    if kind == "otlp" and where:
        return OtlpFile(where)
    if kind == "jaeger" and where:
        return Jaeger(where, headers=headers)
    if kind == "tempo" and where:
        return Tempo(where, headers=headers)
    raise ConfigError(
        f"{place!r} is no place to read from: use ledger, otlp:FILE, jaeger:http://host:16686 or "
        "tempo:http://host:3200."
    )
