"""How results look on a terminal: prints, never computes."""
