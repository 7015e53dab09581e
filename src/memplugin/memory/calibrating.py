"""Counterfactuals for a sample of shown records, to hold the signs of following against."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryContext
from memplugin.crediting import Followed
from memplugin.diagnosis.calibration import Calibration, calibration
from memplugin.diagnosis.chance import require_scipy
from memplugin.errors import ConfigError
from memplugin.memory.leaving_out import counterfactual
from memplugin.memory.steps import Steps
from memplugin.memory.store import Store
from memplugin.memory.trying import Trial


def calibrate(
    store: Store,
    workspace_id: str,
    model: BaseChatModel,
    sample: int,
    trial: Trial,
    *,
    seed: int,
) -> Steps[Calibration]:
    """Runs what has not been run yet, and compares.

    Raises:
        ConfigError: nothing is scored, or the sample is empty.
    """
    require_scipy()  # before any run is paid for
    if sample < 1:
        raise ConfigError(f"sample is {sample}: give at least 1.")
    scored = store.ledger.followed(workspace_id)
    if not scored:
        raise ConfigError(
            f"workspace {workspace_id!r} has no scored record that was shown to a stored decision: "
            "run `memplugin learn` first; old decisions may have been pruned."
        )
    drawn = random.Random(seed).sample(scored, min(sample, len(scored)))  # noqa: S311 -- no secret
    for decision_id, record_ids in _to_run(store, workspace_id, drawn).items():
        context = MemoryContext(workspace_id, decision_id)  # the decision names its own session
        wanted = replace(trial, record_ids=record_ids)
        yield from counterfactual(store, decision_id, context, model, wanted)
    return calibration(
        drawn,
        store.ledger.counterfactuals(workspace_id),
        of=len(scored),
        close_from=store.config.learn.weights.close_from,
    )


def _to_run(store: Store, workspace_id: str, drawn: Sequence[Followed]) -> dict[str, list[str]]:
    done = {(one.decision_id, one.record_id) for one in store.ledger.counterfactuals(workspace_id)}
    missing: dict[str, list[str]] = defaultdict(list)
    for row in drawn:
        if row.key not in done and row.record_id not in missing[row.decision_id]:
            missing[row.decision_id].append(row.record_id)
    return {decision_id: ids for decision_id, ids in missing.items() if ids}
