"""Checks of what a conversion wrote, in the workers that convert. Only these workers' keys depend on this code."""
