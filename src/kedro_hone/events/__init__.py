"""The service that starts runs for what happens in registries, by rules, and the queue of these runs."""
