"""The files of public data sets, and where they are looked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memplugin.errors import ConfigError

FOLDER = Path("..") / "shared" / "data"
"""Where files are looked for, from the working directory, unless a variable names them."""


class DataAbsent(ConfigError):
    """The file of a public data set is absent."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """The file of a public data set.

    Attributes:
        variable: The environment variable that names the file.
        files: The names that it may have.
        source: Where it comes from, and its licence.
    """

    name: str
    variable: str
    files: tuple[str, ...]
    source: str

    def find(self, environment: Mapping[str, str] = os.environ) -> Path | None:
        """The path of the file; None where it is absent."""
        named = environment.get(self.variable)
        candidates = [Path(named)] if named else [FOLDER / file for file in self.files]
        return next((path for path in candidates if path.is_file()), None)

    def path(self, environment: Mapping[str, str] = os.environ) -> Path:
        """The path of the file.

        Raises:
            DataAbsent: it is absent; the message says where to get it.
        """
        found = self.find(environment)
        if found is None:
            raise DataAbsent(self.absent)
        return found

    @property
    def absent(self) -> str:
        """The message for an absent file."""
        return (
            f"{self.name} is not here: set {self.variable} to the file {self.files[0]} of "
            f"{self.source}."
        )
