"""Toolchains of the tests; a package, since `benchmarks/toolchains.py` has the same name."""
