"""What ``kedro hone init`` writes: a recipe, the entries of the data, and one line each in two files of a project."""
