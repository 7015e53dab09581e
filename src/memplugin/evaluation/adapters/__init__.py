"""Public data sets: read as suites, or as known results that verdicts are compared with.

None of the data comes with the package. Each module says where its data come from, and
under which licence.
"""
