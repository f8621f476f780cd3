"""Tuning: choose the operators of a model that are quantized, within the limits of the recipe's metrics."""
