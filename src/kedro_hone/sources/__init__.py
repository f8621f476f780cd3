"""Source formats: what kinds of models a registry may hold, how each is recognised, and how it is run."""
