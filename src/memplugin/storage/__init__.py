"""Where memory is kept.

``sql`` holds the ledger, which alone says what is true; ``migrations`` its tables, revision
by revision; ``vector`` the index, which can be made again from the ledger, and search in it;
``embedding`` the models that turn texts into vectors.
"""
