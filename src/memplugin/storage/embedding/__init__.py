"""Models that turn texts into vectors of length 1.

They run by sentence-transformers, ONNX Runtime or LangChain. ``embedder`` makes the one that
a user asked for; nothing is loaded before its first use.
"""
