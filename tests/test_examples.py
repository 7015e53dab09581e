"""Every example runs from end to end, without a key, and says what happened."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> Any:
    spec = spec_from_file_location(f"examples_{name.removesuffix('.py')}", EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    # LangGraph looks a state's types up in its module.
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_a_test_for_every_example() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "dispatch.py",
        "fastapi_app.py",
        "support_chat.py",
        "test_with_fakes.py",
    }


def test_the_support_chat_ends_with_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    example("support_chat.py").main()
    assert capsys.readouterr().out.splitlines()[:3] == [
        "remembered and shown: ['Replacements are sent to the Leeds office.']",
        "sent to: billing address",
        "verdict: use / ignored",
    ]


def test_the_dispatch_decision_is_flagged_and_then_corrected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    example("dispatch.py").main()
    assert capsys.readouterr().out.splitlines() == [
        'on_override="flag"',
        "  the model said dever, memory claims primex",
        "  sent: dever",
        "  flags: memory_override",
        "  the right vendor: no",
        'on_override="enforce"',
        "  the model said dever, memory claims primex",
        "  sent: primex",
        "  flags: memory_override, memory_enforced",
        "  the right vendor: yes",
    ]


# pgserver asks for a runtime directory that it need not use.
@pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR")
def test_the_fastapi_service_answers_with_what_it_was_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    service = example("fastapi_app.py")
    if missing := [name for name in service.NEEDED if find_spec(name) is None]:
        pytest.skip(f"examples/fastapi_app.py needs: pip install {' '.join(missing)}")
    service.main()
    assert capsys.readouterr().out.splitlines() == ["before: dever", "after: primex"]


def test_the_fastapi_example_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = example("fastapi_app.py")
    monkeypatch.setattr(service, "find_spec", lambda _: None)
    service.main()
    said = capsys.readouterr().out
    assert said == "this example needs: pip install fastapi httpx pgserver\n"


def test_the_tests_with_fakes_pass(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "test_with_fakes.py")
    # In this process: another one would import LangGraph anew.
    assert pytest.main(["-p", "no:cacheprovider", file]) == 0
    assert "2 passed" in capsys.readouterr().out
