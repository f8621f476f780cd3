"""Compression: networks made smaller by pruning, factorization and replacement, and trained to return the same."""
