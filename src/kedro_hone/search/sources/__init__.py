"""The source model: pulled, recognized, sealed, and tried by itself."""
