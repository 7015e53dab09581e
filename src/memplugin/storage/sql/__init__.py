"""The ledger on SQLite and PostgreSQL, through SQLAlchemy Core.

``ledger`` opens it; every other module holds the SQL of one subject, in a class whose
methods are atomic.
"""
