"""Spans and attributes: the only package that touches OpenTelemetry."""
