"""The service that starts runs for events in registries, by rules, and the queue of these runs."""
