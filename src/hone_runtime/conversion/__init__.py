"""Checks of converted models, in the workers that convert. Only these workers' keys depend on this code."""
