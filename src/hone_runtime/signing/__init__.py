"""Signatures of published versions: required signers, verification, and signing."""
