"""Verdicts, each with what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

from memplugin.records import Stage, Verdict

NEXT_STEPS: Mapping[tuple[Stage, str], str] = {
    ("write", "never_proposed"): (
        "Read that turn beside the extractor's prompt: change the prompt, and add the turn to "
        "the write suite. Nothing in retrieval can find what was never stored."
    ),
    ("write", "rejected"): "Look at the gate's reason: change the check's threshold or the prompt.",
    ("write", "failed"): "Look at the error and run remember again: the turns are still unread.",
    ("write", "distorted"): (
        "Compare quote and content: the extractor changed what was said. Forget the record and "
        "correct it with write."
    ),
    ("write", "retired"): (
        "Look at what replaced or retired it (`memplugin task`): if that was wrong, write it again."
    ),
    ("retrieval", "not_queried"): "Put a recall node before the decision on this path.",
    ("retrieval", "not_indexed"): (
        "Look at the backlog (`memplugin doctor`) and run `memplugin reindex`."
    ),
    ("retrieval", "filtered_out"): (
        "Compare the request's kinds and scope with the record's: widen the one or correct the "
        "other."
    ),
    ("retrieval", "beyond_depth"): (
        "The query and the record have too little in common: write it as a standing kind, with "
        "a scope, or with text around it."
    ),
    ("retrieval", "below_cutoff"): (
        "Look at the score parts of the records above it. A preference or instruction belongs "
        "in the standing source; else change the policy, or k."
    ),
    ("retrieval", "cut"): "Raise the token budget or lower the floor, or shorten what is shown.",
    ("use", "no_answer"): "Look at the raw reply: raise its token limit, or change the schema.",
    ("use", "ignored"): (
        "Run the decision again and read both reasonings (`memplugin replay DECISION`, --model, "
        "--without): change the prompt or model."
    ),
    ("use", "overridden"): (
        "Read the reasoning: if the request did not say otherwise, the model overrode memory. A "
        "claim that must hold can be pinned, and on_override set to ask_again or enforce."
    ),
    ("use", "misapplied"): "Read the reasoning: the memory was read and wrongly applied.",
    ("none", "passed"): "Nothing.",
    ("none", "rightly_ignored"): "Nothing: leaving it aside was right.",
    ("none", "never_said"): "Nothing to fix in memory: nobody said it in this workspace.",
    ("undetermined", "no_need"): (
        "Say what should have been used: --need ID, or --correction with what the user says."
    ),
    ("undetermined", "unknown_record"): "Check the record's id and the workspace.",
    ("undetermined", "turns_not_kept"): "Set keep_turns to full to be able to tell next time.",
    ("undetermined", "not_traced"): (
        "Diagnose it on the ledger (leave out --from), or name the record with --need ID."
    ),
    ("undetermined", "no_decision_recorded"): (
        "Decide through memory.decide or the decide node, so that its use can be seen."
    ),
}


def verdict_of(
    stage: Stage,
    cause: str,
    *evidence: str,
    record_id: str | None = None,
    rank: int | None = None,
) -> Verdict:
    """A verdict with its next step.

    Raises:
        KeyError: there is no such cause.
    """
    return Verdict(
        stage=stage,
        cause=cause,
        record_id=record_id,
        rank=rank,
        evidence=evidence,
        next_step=NEXT_STEPS[(stage, cause)],
    )
