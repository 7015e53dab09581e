"""The ledger (truth), the vector index (disposable) and the embedder."""
