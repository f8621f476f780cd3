"""Worker files that misbehave, one way each; run by path, never imported."""
