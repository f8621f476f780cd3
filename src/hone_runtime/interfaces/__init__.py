"""The ways to call a model: with tensors, tables, text, or as a class of Transformers."""
