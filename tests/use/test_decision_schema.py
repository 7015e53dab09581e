from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, field_validator
from use_replies import GOOD, VendorChoice

from memplugin.chat.json_schema import strict_schema
from memplugin.errors import SchemaError
from memplugin.use.key_order import is_reasoning
from memplugin.use.schema import (
    answer_of,
    answer_values,
    decision_schema,
    order_preserved,
    reasoning_after_answer,
)


class Step(BaseModel):
    reason: str
    action: Literal["call", "wait"] = "wait"
    minutes: Annotated[int, Field(ge=0)] = 30


class Plan(BaseModel):
    """What to do."""

    plan_reasoning: str
    vendor_id: str = Field(description="The vendor's id")
    steps: list[Step] = []
    fallback: Step | None = None
    note: str | None = "none yet"
    amount: Annotated[int, Field(ge=0)] = Field(3, le=5)


def test_reasoning_stands_before_the_answer_and_every_field_is_required():
    schema = decision_schema(VendorChoice).model_json_schema()
    assert schema["required"] == list(schema["properties"])
    assert schema["required"] == [
        "memory_reasoning",
        "considered",
        "cited_record_ids",
        "vendor_id",
        "urgent",
    ]
    assert all(field.is_required() for field in decision_schema(VendorChoice).model_fields.values())


def test_descriptions_and_constraints_of_the_answer_are_kept():
    properties = decision_schema(Plan).model_json_schema()["properties"]
    assert properties["vendor_id"] == {"type": "string", "description": "The vendor's id"}
    assert properties["amount"] == {
        "anyOf": [{"type": "integer", "minimum": 0, "maximum": 5}, {"type": "null"}]
    }
    assert decision_schema(Plan).model_json_schema()["description"] == "What to do."


def _objects(node: Any):
    if isinstance(node, dict):
        if "properties" in node:
            yield node
        for inner in node.values():
            yield from _objects(inner)
    if isinstance(node, list):
        for inner in node:
            yield from _objects(inner)


def test_strictness_holds_at_every_level_and_no_reference_or_default_is_left():
    schema = decision_schema(Plan).model_json_schema()
    objects = list(_objects(schema))
    assert len(objects) == 3
    for node in objects:
        assert node["required"] == list(node["properties"])
        assert node["additionalProperties"] is False
    assert "$ref" not in str(schema)
    assert "'default'" not in str(schema)
    assert strict_schema(schema) == schema


def test_a_field_called_like_a_keyword_of_json_schema_is_kept():
    class Odd(BaseModel):
        title: str
        default: str = "x"

    properties = decision_schema(Odd).model_json_schema()["properties"]
    assert list(properties)[3:] == ["title", "default"]


def test_limits_steer_the_model_and_do_not_make_a_reply_invalid():
    schema = decision_schema(VendorChoice, max_reasoning_chars=10, cite_from=["m_1", "m_2"])
    properties = schema.model_json_schema()["properties"]
    assert properties["memory_reasoning"]["maxLength"] == 10
    assert properties["considered"]["maxLength"] == 10
    assert properties["cited_record_ids"]["items"] == {"type": "string", "enum": ["m_1", "m_2"]}
    assert properties["cited_record_ids"]["maxItems"] == 2
    made = schema.model_validate({**GOOD, "cited_record_ids": ["m_9"]})
    assert made.cited_record_ids == ["m_9"]


def test_with_nothing_to_cite_no_citation_is_offered():
    cited = decision_schema(VendorChoice, cite_from=[]).model_json_schema()["properties"]
    assert cited["cited_record_ids"]["maxItems"] == 0
    assert cited["cited_record_ids"]["items"] == {"type": "string"}


def test_a_decision_schema_is_taken_as_it_is():
    schema = decision_schema(VendorChoice, max_reasoning_chars=10)
    assert decision_schema(schema) is schema
    added = decision_schema(schema, cite_from=["m_1"]).model_json_schema()["properties"]
    assert added["memory_reasoning"]["maxLength"] == 10
    assert added["cited_record_ids"]["items"]["enum"] == ["m_1"]
    assert list(added)[3:] == ["vendor_id", "urgent"]


# ---------------------------------------------------------------- what is refused


class Late(BaseModel):
    vendor_id: str
    urgency_reason: str


class Base(BaseModel):
    vendor_id: str


class Inherited(Base):
    rationale: str


class Redeclared(Base):
    rationale: str
    vendor_id: str


class Aliased(BaseModel):
    vendor_id: str
    text: str = Field(alias="vendorReasoning")


@dataclass
class Data:
    vendor_id: str
    why: str


class InList(BaseModel):
    choices: list[Late]


class InOptional(BaseModel):
    choice: Optional[Late]  # noqa: UP045 -- the old spelling is to be seen through too


class InUnion(BaseModel):
    choice: VendorChoice | Late


class InDataclass(BaseModel):
    choice: Data


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        (Late, "urgency_reason"),
        (Inherited, "rationale"),
        (Redeclared, "rationale"),
        (Aliased, "vendorReasoning"),
        (InList, r"choices\[\]\.urgency_reason"),
        (InOptional, r"choice\.urgency_reason"),
        (InUnion, r"choice\.urgency_reason"),
        (InDataclass, r"choice\.why"),
    ],
)
def test_reasoning_after_the_answer_is_refused_wherever_it_is(answer, path):
    with pytest.raises(SchemaError, match=rf"'{path}' of \w+ comes after 'vendor_id'") as caught:
        decision_schema(answer)
    assert "generated in order" in str(caught.value)
    assert "answer_fields={" in str(caught.value)


def test_a_field_that_is_an_answer_though_called_a_reason_can_be_declared():
    class Cancel(BaseModel):
        cancelled: bool
        cancellation_reason: Literal["price", "moved"]

    with pytest.raises(SchemaError):
        decision_schema(Cancel)
    schema = decision_schema(Cancel, answer_fields={"cancellation_reason"})
    received = {"cancelled": True, "cancellation_reason": "price"}
    assert not reasoning_after_answer(schema, received)
    assert answer_values(schema, answer_of(schema, received)) == received
    with pytest.raises(SchemaError, match="names cancelation_reason"):
        decision_schema(Cancel, answer_fields={"cancelation_reason"})


@pytest.mark.parametrize(
    "name",
    [
        "reason",
        "reasons",
        "Reasoning",
        "rationale",
        "explanation",
        "justification",
        "thought",
        "thoughts",
        "why",
        "WHY",
        "analysis",
        "chain_of_thought",
        "urgency_reason",
        "urgencyReason",
        "urgency-reason",
        "reason_2",
    ],
)
def test_names_of_reasoning(name):
    assert is_reasoning(name)


@pytest.mark.parametrize(
    "name",
    [
        "vendor_id",
        "reasonable",
        "season",
        "reason_code",
        "whyte",
        "treason",
    ],
)
def test_names_that_only_look_like_reasoning(name):
    assert not is_reasoning(name)


class FreeDict(BaseModel):
    details: dict[str, int]


class NestedDict(BaseModel):
    rows: list[FreeDict]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class NestedOpen(BaseModel):
    inner: Open


class Anything(BaseModel):
    x: Any


class Tree(BaseModel):
    children: list[Tree]


class Clash(BaseModel):
    considered: str


class ClashByAlias(BaseModel):
    x: str = Field(alias="memory_reasoning")


class Empty(BaseModel):
    pass


class Ids(RootModel[list[str]]):
    pass


class NoJson(BaseModel):
    x: Callable[[], int]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (FreeDict, "'details' takes any key"),
        (NestedDict, r"'rows\[\]\.details' takes any key"),
        (NestedOpen, "'inner' takes any key"),
        (Anything, "'x' may be anything"),
        (Tree, "contains 'Tree' inside itself"),
        (Clash, "has a field 'considered'"),
        (ClashByAlias, "has a field 'memory_reasoning'"),
        (Empty, "has no fields"),
        (Ids, "has no fields"),
        (NoJson, "can't be written as a JSON schema"),
        (Data, "is no Pydantic model"),
        ("VendorChoice", "is no Pydantic model"),
    ],
)
def test_an_answer_that_strict_output_cannot_express_is_refused(answer, words):
    with pytest.raises(SchemaError, match=words):
        decision_schema(answer)


# ---------------------------------------------------------------- reading


def test_null_stands_for_a_default_unless_none_is_valid():
    schema = decision_schema(Plan)
    plan = answer_of(
        schema,
        {
            "memory_reasoning": "…",
            "plan_reasoning": "…",
            "vendor_id": "primex",
            "steps": [{"reason": "…", "action": None, "minutes": None}],
            "fallback": None,
            "note": None,
            "amount": None,
        },
    )
    assert plan == Plan(
        plan_reasoning="…", vendor_id="primex", steps=[Step(reason="…")], note=None, amount=3
    )


def test_the_class_itself_takes_null_for_a_nested_default():
    made: Any = decision_schema(Plan).model_validate(
        {
            **dict.fromkeys(("memory_reasoning", "considered"), "…"),
            "cited_record_ids": [],
            "plan_reasoning": "…",
            "vendor_id": "primex",
            "steps": [{"reason": "…", "action": None, "minutes": None}],
            "fallback": None,
            "note": None,
            "amount": None,
        }
    )
    assert made.steps == [Step(reason="…")]


def test_null_for_a_field_without_default_is_an_error_about_null():
    with pytest.raises(ValidationError, match="Input should be 'primex' or 'dever'"):
        answer_of(decision_schema(VendorChoice), {"vendor_id": None, "urgent": None})


def test_the_answers_own_validators_have_the_last_word():
    class Even(BaseModel):
        n: int
        m: int = 2

        @field_validator("n")
        @classmethod
        def _even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("n is odd")
            return value

    schema = decision_schema(Even)
    assert answer_of(schema, {"n": 4, "m": None}) == Even(n=4)
    with pytest.raises(ValidationError, match="n is odd"):
        answer_of(schema, {"n": 3, "m": None})


def test_an_answer_is_read_by_its_aliases_and_told_by_its_names():
    class Camel(BaseModel):
        vendor_reasoning: str = Field(alias="vendorReasoning")
        vendor_id: str = Field(alias="vendorId")

    schema = decision_schema(Camel)
    assert list(schema.model_json_schema()["properties"])[3:] == ["vendorReasoning", "vendorId"]
    answer = answer_of(schema, {"vendorReasoning": "…", "vendorId": "primex"})
    assert answer_values(schema, answer) == {"vendor_id": "primex"}


# ---------------------------------------------------------------- order

IN_ORDER: dict[str, Any] = {
    "memory_reasoning": "…",
    "considered": "…",
    "cited_record_ids": [],
    "plan_reasoning": "…",
    "vendor_id": "primex",
    "steps": [{"reason": "…", "action": "call", "minutes": 1}],
    "fallback": {"reason": "…", "action": "wait", "minutes": 2},
    "note": None,
    "amount": 3,
}
PLAN = decision_schema(Plan)


@given(st.permutations(list(IN_ORDER)))
def test_any_other_order_of_the_keys_is_noticed(keys):
    assert order_preserved(PLAN, {key: IN_ORDER[key] for key in keys}) is (keys == list(IN_ORDER))


@given(st.permutations(["reason", "action", "minutes"]), st.sampled_from(["steps", "fallback"]))
def test_another_order_inside_a_nested_object_is_noticed(keys, field):
    step = {key: IN_ORDER["fallback"][key] for key in keys}
    received = {**IN_ORDER, field: [IN_ORDER["steps"][0], step] if field == "steps" else step}
    assert order_preserved(PLAN, received) is (keys == ["reason", "action", "minutes"])
    late = keys.index("reason") > 0
    assert reasoning_after_answer(PLAN, received) is late


@given(st.sets(st.sampled_from(list(IN_ORDER))))
def test_keys_left_out_or_unknown_do_not_change_the_order(left_out):
    received = {k: v for k, v in IN_ORDER.items() if k not in left_out}
    assert order_preserved(PLAN, {"extra": 1, **received, "more": 2}) is True


def test_an_order_that_is_not_known_is_none():
    assert order_preserved(PLAN, None) is None
    assert reasoning_after_answer(PLAN, None) is False


def test_reasoning_is_late_only_when_an_answer_stands_before_it():
    sorted_by_name = {key: IN_ORDER[key] for key in sorted(IN_ORDER)}
    assert reasoning_after_answer(PLAN, sorted_by_name)
    citations_first = {"cited_record_ids": [], **IN_ORDER}
    assert order_preserved(PLAN, citations_first) is False
    assert not reasoning_after_answer(PLAN, citations_first)


def test_in_a_union_the_branch_that_has_the_keys_gives_the_order():
    class Call(BaseModel):
        number: str
        at: str

    class Wait(BaseModel):
        at: str
        number: str
        until: str

    class Next(BaseModel):
        step: Call | Wait

    schema = decision_schema(Next)
    assert order_preserved(schema, {"step": {"number": "1", "at": "x"}})
    assert order_preserved(schema, {"step": {"at": "x", "number": "1", "until": "y"}})
    assert not order_preserved(schema, {"step": {"number": "1", "at": "x", "until": "y"}})
