"""SparseML: weights pruned by its recipes, in one step or while a program is trained."""
