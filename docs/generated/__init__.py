"""Documentation generated from the code, as Markdown."""
