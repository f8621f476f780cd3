"""The recipe, the adaptors that it selects, and the routes over them."""
