"""What registries say happened, which rule starts a run for it, and the queue of such runs."""
