"""Signatures of published versions: who must have signed, checking, and signing."""
