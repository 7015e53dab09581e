"""Memory for LangGraph agents that can say which stage failed."""
