"""A task's spans, built again from the rows of the ledger.

For tasks whose trace was not sampled: the hops as spans, with their original times and ids, and
sending them.
"""
