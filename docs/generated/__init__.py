"""What the code says of itself, as Markdown."""
