"""The command line. A module has one group of commands and what they print; none computes.

``main`` lists the commands; ``options`` and ``output`` have what all of them share.
"""
