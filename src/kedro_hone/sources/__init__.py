"""Source formats: what a registry's files hold, and how they are run."""
