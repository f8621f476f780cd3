"""SparseML: weights pruned by its recipes, in one step or during training with a program."""
