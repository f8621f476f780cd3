"""Sessions of a runtime: shapes, compiled files, caches, and how outputs are compared. NumPy only."""
