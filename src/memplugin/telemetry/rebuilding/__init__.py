"""A task's trace from the ledger, for a task that was not sampled."""
