"""Models in the layout of the Hugging Face Hub, read only by their names, JSON and headers."""
