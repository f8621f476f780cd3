"""The files that are the same in each generated client, except for the name of its package."""
