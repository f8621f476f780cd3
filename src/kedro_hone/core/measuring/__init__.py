"""Starting workers to measure them, and measuring them in rounds."""
