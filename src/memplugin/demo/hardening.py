"""The hardening run: wrong tips look good for as long as nobody follows them.

An agent hardens a host, rule by rule, with up to three attempts at each. Its memory holds
five tips that are plausible and wrong here, and three practices that work. In the first run
the agent goes its own way, and whatever lay beside it when a rule passed looks good. In the
second, over the same rules, it does what memory says: one rule fails three times, and the
third time the host can no longer be reached.

Nothing is made to fail: the host checks each script by what it does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from langchain_core.messages import BaseMessage
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, Field

from memplugin.config import HEALTH_FAILURE, OUTCOME_ONLY, LearnConfig, MemoryConfig, MemoryContext
from memplugin.demo.board_pack import OpenMemory, answer_of
from memplugin.diagnosis.audit import Audit
from memplugin.integrations.langgraph import (
    create_decide_node,
    create_recall_node,
    create_report_node,
)
from memplugin.memory.client import Memory
from memplugin.records import Eviction, LearnReport, Noun, Retrieval
from memplugin.testing.fakes import FixedClock
from memplugin.testing.model import ScriptedChatModel

# LangGraph's builder is only partly typed.
# pyright: reportUnknownMemberType=false


WORKSPACE = "ws_hardening"
FIRST_RUN = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)
EVERY = timedelta(days=7)

QUERY = "Hardening the SSH client: how?"
K = 8
MOST_ATTEMPTS = 3
CONFIG = MemoryConfig(floor=-1.0)
BY_OUTCOME = MemoryConfig(floor=-1.0, learn=LearnConfig(weights=OUTCOME_ONLY))
"""The same store, ranked by what came out whenever a memory was there."""

TIP, PRACTICE = "tip", "practice"
MISLEADING = (
    "Hardening the SSH client: set a system-wide policy with update-crypto-policies.",
    "Hardening the SSH client: the crypto policy FIPS is all it needs.",
    "Hardening the SSH client: use update-crypto-policies for its MACs.",
    "Hardening the SSH client: leave its file alone, set the crypto policy.",
    "Hardening the SSH client: do not edit its file: a crypto policy covers it.",
)
"""Right elsewhere. On this host an Include in the client's file wins over any policy."""

PRACTICES = (
    "Hardening the SSH client: write the whole file: an Include wins.",
    "Hardening the SSH client: let the program check its file at the end.",
    "Hardening the SSH client: restart the service in the same script.",
)
"""About as relevant as the tips, so that credit decides."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the baseline.

    Attributes:
        kinds: Which memories are asked for. Tips are about the client's rules only.
    """

    name: str
    file: str
    line: str
    check: str
    service: str
    kinds: tuple[str, ...] = (PRACTICE,)


def _client(name: str, line: str) -> Rule:
    return Rule(name, "/etc/ssh/ssh_config", line, "ssh -G localhost", "sshd", (TIP, PRACTICE))


def _server(name: str, line: str) -> Rule:
    return Rule(name, "/etc/ssh/sshd_config", line, "sshd -t", "sshd")


MACS = _client(
    "harden_sshd_macs_openssh_conf_crypto_policy",
    "MACs hmac-sha2-512-etm@openssh.com,hmac-sha2-256-etm@openssh.com",
)
RULES = (
    _client("harden_sshd_ciphers_openssh_conf_crypto_policy", "Ciphers aes256-gcm@openssh.com"),
    _client("ssh_client_rekey_limit", "RekeyLimit 1G 1h"),
    _client("ssh_client_use_strong_rng", "RequiredRSASize 3072"),
    _server("sshd_set_keepalive", "ClientAliveCountMax 1"),
    _server("sshd_disable_root_login", "PermitRootLogin no"),
    _server("sshd_set_idle_timeout", "ClientAliveInterval 600"),
    MACS,
)


class Fix(BaseModel):
    """What the agent does about a rule."""

    script: str = Field(description="The shell script to run on the host")


# ---------------------------------------------------------------- the host


class Scan(TypedDict):
    """What the scanner says after a script has run."""

    passed: bool
    failure_mode: str | None
    said: str


def scan(rule: Rule, script: str) -> Scan:
    """Runs a script on the host, so to speak, and scans for the rule."""
    if "FUTURE" in script:
        said = "no login is possible: client and server have no algorithm in common"
        return Scan(passed=False, failure_mode=HEALTH_FAILURE, said=said)
    written = f"cat <<EOF > {rule.file}" in script and rule.line in script
    if not written:
        said = f"{rule.file} still says otherwise: its Include comes first"
        return Scan(passed=False, failure_mode="clean_failure", said=said)
    if "systemctl restart" not in script:
        return Scan(passed=False, failure_mode="clean_failure", said="the old settings still run")
    return Scan(passed=True, failure_mode=None, said="the rule passes")


# ---------------------------------------------------------------- the agent

_ATTEMPT = re.compile(r"^Rule (\S+), attempt (\d+)$", re.MULTILINE)
_ABOUT_MACS = re.compile(r'<memory id="([^"]+)"[^>]*>[^<]*update-crypto-policies for its MACs')
_POLICIES = ("FIPS", "FIPS:OSPP", "FUTURE")


def agent(*, obedient: bool) -> ScriptedChatModel:
    """The agent's model. It knows its trade; an obedient one does what memory says instead.

    The server's rules take it three attempts: first it appends a line, then it forgets that
    the old settings still run.
    """

    def reply(messages: list[BaseMessage]) -> dict[str, Any]:
        said = str(messages[-1].text)
        found = _ATTEMPT.search(said)
        assert found is not None  # noqa: S101 -- every question is made by ``_work_on``
        name, attempt = found[1], int(found[2])
        rule = next(rule for rule in RULES if rule.name == name)
        tip = _ABOUT_MACS.search(said) if obedient and rule is MACS else None
        return {
            "memory_reasoning": f"{tip[1]} says how." if tip else "I know how.",
            "considered": "the other way",
            "cited_record_ids": [tip[1]] if tip else [],
            "script": _script_from_memory(attempt) if tip else _own_script(rule, attempt),
        }

    return ScriptedChatModel(reply)


def _script_from_memory(attempt: int) -> str:
    return f"update-crypto-policies --set {_POLICIES[attempt - 1]}\n"


def _own_script(rule: Rule, attempt: int) -> str:
    learning = TIP not in rule.kinds and attempt < MOST_ATTEMPTS
    if learning and attempt == 1:
        return f"echo '{rule.line}' >> {rule.file}\n"
    whole = f"cat <<EOF > {rule.file}\n{rule.line}\nEOF\n"
    return whole if learning else f"{whole}{rule.check}\nsystemctl restart {rule.service}\n"


class Work(TypedDict, total=False):
    """State of the graph of one attempt."""

    topic: str
    question: str
    memory: dict[str, Any]
    decision: dict[str, Any]
    scan: Scan
    outcome: dict[str, Any]


def _attempt_graph(memory: Memory, rule: Rule, model: ScriptedChatModel) -> Any:
    """The graph of one attempt: recall, decide, run the script and scan, report."""

    def run(state: Work) -> dict[str, Any]:
        return {"scan": scan(rule, script_of(state))}

    builder = StateGraph(Work, context_schema=MemoryContext)
    report = create_report_node(
        memory,
        succeeded=lambda state: state["scan"]["passed"],
        failure_mode=lambda state: state["scan"]["failure_mode"],
        action=script_of,
    )
    builder.add_sequence(
        [
            ("recall", create_recall_node(memory, query="topic", k=K, kinds=rule.kinds)),
            ("decide", create_decide_node(memory, model, answer=Fix)),
            ("run", run),
            ("report", report),
        ]
    )
    builder.add_edge(START, "recall")
    return builder.compile()


def script_of(state: Work) -> str:
    """The script that was decided on."""
    return str(answer_of(state).get("script", ""))


# ---------------------------------------------------------------- the judge

_ASKS_FOR = (
    ("crypto polic", ("update-crypto-policies",)),
    ("update-crypto-policies", ("update-crypto-policies",)),
    ("write the whole file", ("cat <<EOF >",)),
    ("check its file", ("ssh -G", "sshd -t")),
    ("restart the service", ("systemctl restart",)),
)
"""What a memory speaks of, and what a script that follows it does."""


def judge() -> ScriptedChatModel:
    """Reads a memory and an action, and says whether the second does what the first says."""

    def reply(messages: list[BaseMessage]) -> dict[str, Any]:
        memory, action = (json.loads(line) for line in str(messages[-1].text).splitlines())
        content, script = str(memory["memory"]), str(action["action"])
        asked = next(does for says, does in _ASKS_FOR if says in content)
        followed = any(command in script for command in asked)
        does = "has" if followed else "has not"
        reasoning = f"It asks for {' or '.join(asked)}, which the script {does}."
        return {"reasoning": reasoning, "followed": followed}

    return ScriptedChatModel(reply)


def _write_tips(memory: Memory) -> Sequence[str]:
    """Stores tips and practices; returns the ids of the misleading ones."""
    context = MemoryContext(WORKSPACE, "s_0", task_id="earlier_runs")
    tips = [{"content": content, "kind": TIP} for content in MISLEADING]
    practices = [{"content": content, "kind": PRACTICE} for content in PRACTICES]
    receipts = memory.write_many([*tips, *practices], context=context)
    return [str(receipt.record_id) for receipt in receipts[: len(tips)]]


@dataclass(frozen=True, slots=True)
class Attempt(Noun):
    """One attempt at a rule."""

    rule: str
    attempt: int
    script: str
    passed: bool
    failure_mode: str | None
    said: str
    value: float


@dataclass(frozen=True, slots=True)
class Standing(Noun):
    """Where a memory stands after a run, by outcome alone and by who was followed.

    Attributes:
        by_outcome: Rank in a recall, and credit, where whatever was shown is credited.
        by_following: The same where only what was followed is.
    """

    record_id: str
    content: str
    misleading: bool
    by_outcome: tuple[int, float]
    by_following: tuple[int, float]


@dataclass(frozen=True, slots=True)
class Run(Noun):
    """One run over the rules, and what memory made of it."""

    number: int
    attempts: tuple[Attempt, ...]
    learnt: LearnReport
    standings: tuple[Standing, ...]


@dataclass(frozen=True, slots=True)
class HardeningResult(Noun):
    """How it ended.

    Attributes:
        before: Where each memory stood before the first run.
        afterwards: The rule that failed, once the misleading tips were gone.
    """

    before: tuple[Standing, ...]
    runs: tuple[Run, ...]
    audit: Audit
    evicted: tuple[Eviction, ...]
    afterwards: tuple[Attempt, ...]
    misleading: tuple[str, ...]

    @property
    def as_expected(self) -> bool:
        """Whether it went as the story says."""
        named = {entry.record_id for entry in self.audit.misleading}
        gone = {eviction.record_id for eviction in self.evicted}
        return (
            named == gone == set(self.misleading)
            and all(_apart(run.standings) for run in self.runs)
            and [a.passed for a in self.runs[1].attempts if a.rule == MACS.name] == [False] * 3
            and [attempt.passed for attempt in self.afterwards] == [True]
        )


def _apart(standings: Sequence[Standing]) -> bool:
    """Whether outcome alone has the misleading ones first, and following has them last."""
    lucky = [s for s in standings if s.misleading]
    sound = [s for s in standings if not s.misleading]
    return all(
        one.by_outcome[0] < other.by_outcome[0] and one.by_following[0] > other.by_following[0]
        for one in lucky
        for other in sound
    )


def run_story(open_memory: OpenMemory) -> HardeningResult:
    """Does both runs on one store, learns after each, audits, evicts, and tries once more.

    Args:
        open_memory: Opens the same store with a configuration and a clock.
    """
    clock = FixedClock(FIRST_RUN, step=timedelta(seconds=1))
    with (
        open_memory(CONFIG, clock) as memory,
        open_memory(BY_OUTCOME, clock) as by_outcome,
    ):
        misleading = tuple(_write_tips(memory))
        both = by_outcome, memory
        before = _standings(both, misleading, "before")
        runs: list[Run] = []
        for number, obedient in ((1, False), (2, True)):
            clock.set(FIRST_RUN + number * EVERY)
            model = agent(obedient=obedient)
            attempts = tuple(a for rule in RULES for a in _work_on(memory, rule, number, model))
            learnt = memory.learn(model=judge())
            standings = _standings(both, misleading, f"after run {number}")
            runs.append(Run(number, attempts, learnt, standings))
        audit = memory.audit(workspace_id=WORKSPACE)
        evicted = tuple(memory.evict(workspace_id=WORKSPACE))
        clock.set(FIRST_RUN + 3 * EVERY)
        afterwards = tuple(_work_on(memory, MACS, 3, agent(obedient=True)))
    return HardeningResult(before, tuple(runs), audit, evicted, afterwards, misleading)


def _work_on(
    memory: Memory, rule: Rule, number: int, model: ScriptedChatModel
) -> Iterator[Attempt]:
    graph = _attempt_graph(memory, rule, model)
    for attempt in range(1, MOST_ATTEMPTS + 1):
        run, task = f"run_{number}", f"run_{number}/{rule.name}"
        context = MemoryContext(WORKSPACE, run, task_id=task, attempt=attempt)
        state = {"topic": QUERY, "question": f"Rule {rule.name}, attempt {attempt}"}
        ended = graph.invoke(state, context=context)
        found = ended["scan"]
        yield Attempt(
            rule=rule.name,
            attempt=attempt,
            script=script_of(ended),
            passed=found["passed"],
            failure_mode=found["failure_mode"],
            said=found["said"],
            value=ended["outcome"]["value"],
        )
        if found["passed"]:
            return


def _standings(
    memories: tuple[Memory, Memory], misleading: Sequence[str], when: str
) -> tuple[Standing, ...]:
    by_outcome, by_following = (_ranked(memory, when) for memory in memories)
    contents = {c.record_id: c.content for c in by_following.candidates}
    outcome, following = _places(by_outcome), _places(by_following)
    return tuple(
        Standing(i, contents[i], i in misleading, outcome[i], following[i]) for i in following
    )


def _ranked(memory: Memory, when: str) -> Retrieval:
    # Looked at only: no outcome is reported, so that it credits nobody.
    context = MemoryContext(WORKSPACE, "looking", task_id=f"looking {when}")
    return memory.recall(QUERY, context=context, k=K)


def _places(retrieval: Retrieval) -> Mapping[str, tuple[int, float]]:
    return {c.record_id: (c.rank, c.parts["credit"]) for c in retrieval.candidates}
