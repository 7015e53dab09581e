"""From outcomes to credit: grades, whether a memory was followed, and which records to evict.

Pure functions and the judge's prompt; the judge is called in ``memory``.
"""
