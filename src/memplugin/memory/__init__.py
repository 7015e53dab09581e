"""``Memory`` and its operations: one module for each, on an opened store (``Backend``).

The only package that knows the order of the steps and does the reading, writing and
calling: the decisions in them are pure functions of ``write``, ``retrieval``, ``use``,
``learning`` and ``diagnosis``. The only one that opens spans.
"""
