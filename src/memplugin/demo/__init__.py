"""The stories of ``memplugin demo``: one module for each, with its agent and how it is run.

``models`` has the scripted models of the board pack.
"""
