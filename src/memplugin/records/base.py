"""Types that every noun uses: JSON values, scopes, claims, spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, cast

from pydantic import TypeAdapter

Json = dict[str, Any]


Scope = Mapping[str, str]


Claim = Mapping[str, Any]


@cache
def _adapter(cls: type) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


class Noun:
    """Gives a frozen dataclass its way to JSON and back."""

    def to_json(self) -> Json:
        """Returns plain JSON values: dicts, lists, strings, numbers, booleans, None."""
        return cast(Json, _adapter(type(self)).dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Reads what ``to_json`` wrote.

        Raises:
            pydantic.ValidationError: a field is missing or of another type.
        """
        return cast(Self, _adapter(cls).validate_python(dict(data)))


@dataclass(frozen=True, slots=True)
class SpanRef(Noun):
    """Where a hop was traced: 32 and 16 hex digits."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The W3C form, for a link from another trace."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"
