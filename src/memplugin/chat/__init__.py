"""Asking a chat model for structured output, whatever the provider.

What is sent (messages, strict JSON schemas), and what came back: an answer, or why there is
none. The model itself is the caller's.
"""
