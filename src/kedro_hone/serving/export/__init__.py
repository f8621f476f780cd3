"""Folders that other servers and runtimes load, written from a published winner; one module for each target."""
