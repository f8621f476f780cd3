"""Each candidate before the race: whether its outputs are good enough."""
