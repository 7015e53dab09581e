from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import ExecutionInfo, Runtime
from pydantic import BaseModel

from memplugin import MemoryContext
from memplugin.errors import ContextError
from memplugin.integrations.context import context_of


@dataclass
class HostContext:
    workspace_id: str
    task_id: str | None = None
    scope: dict[str, str] = field(default_factory=dict)
    database: object = None


class HostModel(BaseModel):
    workspace_id: str
    task_id: str


def found(context: Any = None, **configurable: Any) -> MemoryContext:
    config: RunnableConfig = {"configurable": configurable}
    return context_of({}, Runtime(context=context), config)


def test_a_memory_context_is_taken_as_it_is():
    given = MemoryContext("w", "s", "t", "u", "memory_off", {"trade": "pest"}, 2)
    assert found(given) == given


@pytest.mark.parametrize(
    "host",
    [
        HostContext("w", "t"),
        HostModel(workspace_id="w", task_id="t"),
        {"workspace_id": "w", "task_id": "t", "database": None},
    ],
    ids=["dataclass", "pydantic", "mapping"],
)
def test_the_ids_are_read_from_any_context_schema_of_the_host(host: Any):
    assert found(host, thread_id="th_1") == MemoryContext("w", "th_1", "t")


def test_every_field_may_come_from_configurable_alone():
    assert found(
        workspace_id="w",
        session_id="s",
        task_id="t",
        user_id="u",
        arm="memory_off",
        scope={"trade": "pest"},
        attempt=2,
    ) == MemoryContext("w", "s", "t", "u", "memory_off", {"trade": "pest"}, 2)


def test_a_config_without_configurable_is_no_obstacle():
    given = MemoryContext("w", "s")
    assert context_of({}, Runtime(context=given), {}) == given


def test_what_the_context_leaves_out_is_read_from_configurable():
    both = found(HostContext("w", scope={"trade": "pest"}), session_id="s", task_id="t")
    assert both == MemoryContext("w", "s", "t", scope={"trade": "pest"})


def test_the_session_falls_back_to_the_thread():
    assert found(workspace_id="w", thread_id="th_1").session_id == "th_1"


def test_a_session_of_its_own_may_differ_from_the_thread():
    assert found(MemoryContext("w", "s"), thread_id="th_1").session_id == "s"


@pytest.mark.parametrize(
    ("thread", "session"),
    [(7, "7"), (UUID(int=1), "00000000-0000-0000-0000-000000000001")],
)
def test_a_thread_id_that_is_no_text_is_the_session_in_text(thread: Any, session: str):
    assert found(workspace_id="w", thread_id=thread).session_id == session


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("workspace_id", "acme", "acme-corp"),
        ("session_id", "s_1", "s_2"),
        ("task_id", "t_1", "t_2"),
        ("user_id", "ann", "bob"),
        ("arm", "memory_on", "memory_off"),
        ("scope", {"trade": "pest"}, {"trade": "roof"}),
        ("attempt", 1, 2),
    ],
)
def test_two_different_values_of_a_field_are_an_error(name: str, one: Any, other: Any):
    context = {"workspace_id": "acme", "session_id": "s_1", name: one}
    with pytest.raises(ContextError, match=rf"^{name} is .* in runtime\.context and .* one place"):
        found(context, **{name: other})


def test_the_same_value_in_both_places_is_no_conflict():
    assert found(MemoryContext("w", "s"), workspace_id="w") == MemoryContext("w", "s")


def test_a_missing_workspace_says_where_it_was_looked_for_and_what_to_do():
    with pytest.raises(ContextError) as error:
        found(thread_id="th_1", tone="warm")
    said = str(error.value)
    assert "no workspace_id: runtime.context is None" in said
    assert "it has thread_id, tone" in said
    assert said.index("pass context=MemoryContext(") > said.index("there is no")


def test_a_context_without_a_workspace_is_named_by_its_type():
    with pytest.raises(ContextError, match=r"runtime\.context is a int without it"):
        found(7, thread_id="th_1")


def test_an_empty_workspace_is_never_filled_in_with_another():
    with pytest.raises(ContextError, match="workspace_id is ''"):
        found({"workspace_id": ""}, thread_id="th_1")
    with pytest.raises(ContextError, match="workspace_id is ''"):
        found({"workspace_id": ""}, thread_id="th_1", workspace_id="w")


def test_a_missing_session_says_that_a_thread_would_do():
    with pytest.raises(ContextError, match="no session_id or thread_id"):
        found(HostContext("w"))


def test_langgraphs_own_task_id_is_never_taken_for_the_task():
    info = ExecutionInfo(checkpoint_id="c", checkpoint_ns="n", task_id="run-of-a-node")
    runtime = Runtime(context=MemoryContext("w", "s"), execution_info=info)
    assert context_of({}, runtime, {}).task_id is None


def test_a_function_of_the_host_decides_alone():
    def given(state: Any, runtime: Runtime[Any], config: RunnableConfig) -> MemoryContext:
        tenant = runtime.context["tenant"]
        return MemoryContext(tenant, config["configurable"]["thread_id"], state["ticket"])

    config: RunnableConfig = {"configurable": {"thread_id": "th_1", "workspace_id": "other"}}
    runtime = Runtime(context={"tenant": "w"})
    assert context_of({"ticket": "t_9"}, runtime, config, given) == MemoryContext(
        "w", "th_1", "t_9"
    )


def test_a_function_that_returns_no_context_is_an_error():
    with pytest.raises(ContextError, match="returned a dict: it must return a MemoryContext"):
        context_of({}, Runtime(), {}, lambda *_: {"workspace_id": "w"})  # pyright: ignore
