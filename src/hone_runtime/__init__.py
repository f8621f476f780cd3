"""What runs a model, in a toolchain's worker and in the process of whoever loads a winner."""
