from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from memplugin.cli.main import app


@pytest.fixture
def cli() -> Callable[..., Any]:
    """Runs ``memplugin`` with arguments."""
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])
