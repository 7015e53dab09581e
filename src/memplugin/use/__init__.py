"""From candidates to a decision: what is shown, the schema, the reply."""
