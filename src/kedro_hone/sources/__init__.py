"""Source formats: the kinds of models in a registry, how each is recognised, and how it is run."""
