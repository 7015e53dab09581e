"""Where public data sets are looked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memplugin.errors import ConfigError

FOLDER = Path("..") / "shared" / "data"
"""Beside the folder in which a command runs; an environment variable says otherwise."""


class DataAbsent(ConfigError):
    """A public data set is not here."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A file that others publish.

    Attributes:
        variable: The environment variable that names the file.
        files: What it is called.
        source: Where it is from, and under which licence.
    """

    name: str
    variable: str
    files: tuple[str, ...]
    source: str

    def find(self, environment: Mapping[str, str] = os.environ) -> Path | None:
        """The file; None where it is not."""
        named = environment.get(self.variable)
        candidates = [Path(named)] if named else [FOLDER / file for file in self.files]
        return next((path for path in candidates if path.is_file()), None)

    def path(self, environment: Mapping[str, str] = os.environ) -> Path:
        """The file.

        Raises:
            DataAbsent: it is not here; the message says where to get it.
        """
        found = self.find(environment)
        if found is None:
            raise DataAbsent(self.absent)
        return found

    @property
    def absent(self) -> str:
        """What is said where it is not."""
        return (
            f"{self.name} is not here: set {self.variable} to the file {self.files[0]} of "
            f"{self.source}."
        )
