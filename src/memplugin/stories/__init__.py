"""The stories that ``memplugin demo`` tells: real agents on a real store, with real faults."""
