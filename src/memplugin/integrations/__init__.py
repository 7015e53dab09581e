"""Nodes for LangGraph and a retriever for LangChain."""
