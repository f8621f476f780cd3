"""Versions in local folders."""
