"""The code that runs a model: in a toolchain's worker, and in any process that loads a winner."""
