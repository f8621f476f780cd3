"""The source model: pulled, recognized, sealed, and tested by itself."""
