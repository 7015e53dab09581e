"""From shown memories to a decision: the prompt, the schema, the reply, and doubts about it.

Pure functions around the model's call, which ``memory`` makes.
"""
