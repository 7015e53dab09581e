"""Speed beside floors of the same run, how it grows, and retrieval quality: ``make bench``."""
