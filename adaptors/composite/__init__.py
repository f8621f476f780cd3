"""Composites: for each shape of a recipe a graph of another toolchain, chosen at the call."""
