"""The recipe, what it selects, and the routes over that."""
