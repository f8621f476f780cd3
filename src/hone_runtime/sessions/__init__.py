"""Sessions of a runtime: shapes, compiled files, caches, and the comparison of outputs. NumPy only."""
