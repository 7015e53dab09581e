"""From what is said or written to proposals, and the gate that rules on them.

Extraction, checks, confidence and observations, as pure functions: what is stored and indexed
is decided here and done in ``memory``.
"""
