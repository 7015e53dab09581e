"""Spans, attributes and metrics: the only package that imports OpenTelemetry.

``names`` has every name, ``attributes`` makes attributes of our nouns, ``spans`` opens
spans on the host's provider. ``readers`` reads spans back from a trace backend, and
``rebuild`` makes the spans of a task again from the ledger.
"""
