"""Public data sets as suites, and as known truths that verdicts are held against.

None of the data comes with the package: each module says where it is from, and under
which licence.
"""
