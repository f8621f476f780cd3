"""Worker files that each misbehave in one way; run by path, never imported."""
