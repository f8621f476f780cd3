"""What a user does not write is derived here: splits from one file of data, and a recipe from a model."""
