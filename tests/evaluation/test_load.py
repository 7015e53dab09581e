from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from memplugin.errors import ConfigError
from memplugin.evaluation.load import load_suite
from tests.evaluation.suites import door


def written(folder: Path, task: dict[str, Any]) -> Path:
    path = folder / "doors.yaml"
    path.write_text(yaml.safe_dump({"tasks": [door(1), task]}))
    return path


def test_a_suite_is_a_yaml_file_of_tasks_called_like_its_file(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path, door(2)))
    assert (suite.name, [task.id for task in suite.tasks]) == ("doors", ["door-1", "door-2"])


def test_a_suite_is_a_jsonl_file_with_a_task_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "doors.jsonl"
    lines = [{"name": "many-doors", "settings": {"floor": 0.1}}, door(1), door(2)]
    # U+2028 ends a line for splitlines(), and not in JSON.
    lines[1]["records"][0]["source"] = "a\u2028b"
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    suite = load_suite(path)
    assert (suite.name, suite.settings, len(suite.tasks)) == ("many-doors", {"floor": 0.1}, 2)


def test_the_same_tasks_in_either_form_are_the_same_suite(tmp_path: Path) -> None:
    as_lines = tmp_path / "doors.jsonl"
    as_lines.write_text("\n".join(json.dumps(door(n)) for n in (1, 2)))
    assert load_suite(as_lines).digest == load_suite(written(tmp_path, door(2))).digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sucess": {}}, "task 'door-2', sucess: there is no such field"),
        ({"request": {"text": "?", "k": 0}}, "task 'door-2', request.k: Input should be"),
        ({"answer": {"code": []}}, "task 'door-2', answer.code"),
        ({"success": {"exact": {"cod": 1}}}, "task 'door-2': success.exact has cod, which answer"),
        ({"success": {"judge": "good", "exact": {"code": 1}}}, "give exactly one of exact, regex"),
        ({"need": {"records": ["key"]}}, "task 'door-2': need.records has key: no record has it"),
        ({"need": {"said": {"session": "s_1"}}}, "message 0 of session 's_1': there is none"),
        ({"settings": {"flor": 0.1}}, "task 'door-2': settings has flor: there is no such setting"),
        ({"settings": {"floor": 7}}, "task 'door-2': floor is 7"),
        ({"answer": {"a": "text", "reasoning": "text"}}, "'reasoning' of Answer comes after 'a'"),
        ({"sessions": [{"messages": [{"user": "x"}], "gold": [{"content": "x", "turn": 3}]}]},
         "task 'door-2', sessions[0]: gold[0].turn is 3, and there are 1 messages"),
        ({"sessions": [{"messages": [{"says": "x"}]}]}, "task 'door-2', sessions[0].messages[0]"),
        ({"corpus": "none"}, "task 'door-2' has the corpus 'none': there is none"),
        ({"id": "door-1"}, "two tasks are called 'door-1'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_task_and_field(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = written(tmp_path, {**door(2), **change})
    with pytest.raises(ConfigError) as caught:
        load_suite(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_task_without_an_id_is_named_by_its_number(tmp_path: Path) -> None:
    task = door(2)
    del task["id"]
    with pytest.raises(ConfigError, match="task number 2, id: Field required"):
        load_suite(written(tmp_path, task))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "tasks: [", "is no YAML"),
        ("a.yaml", "just words", "holds no suite"),
        ("a.yaml", "tasks: []", "there are no tasks"),
        ("a.jsonl", '{"id": "x"}\nnot json\n', "line 2 is no JSON"),
    ],
)
def test_a_file_that_is_no_suite_is_an_error_that_says_why(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_suite(path)


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml can't be read"):
        load_suite(tmp_path / "nowhere.yaml")
