"""Tuning: choose the operators of a model that are quantized, within a limit of the program's metric."""
