"""Composites: a graph of another toolchain for each shape of a recipe, chosen at the call."""
