"""From a conversation to records: extraction, then the gate."""
