"""From what a search brought to ranked candidates, and which of them apply and are shown.

Pure functions: searching is done in ``storage``, in the order that ``memory`` gives.
"""
