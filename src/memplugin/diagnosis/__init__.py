"""Diagnosis: the record of a task, the evidence found for a need, and the verdict.

All of it is pure: it reads the ledger through the protocol ``LedgerReader`` of ``ports``, or
spans that were read before. Also here: stored decisions run again, and their statistics.
"""
