"""LangGraph nodes and the LangChain retriever."""
