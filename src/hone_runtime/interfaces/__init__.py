"""How a model is called: tensors, tables, text, classes of Transformers."""
