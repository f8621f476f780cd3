"""Launches of candidates that take turns, their timings and their scores."""
