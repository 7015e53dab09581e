"""Which stage failed: a task's record and the verdict on it."""
