"""A typed client of a winner: a Python package over ``tritonclient``, and ``.proto`` files for other languages."""
