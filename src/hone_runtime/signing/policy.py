"""The required signer of a version, and the shared parts of signing and verification: file name, keys, error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field, model_validator

from hone_runtime.errors import HoneError
from hone_runtime.values.base import Value

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

SIGNATURE: Final = "model.sig"
"""The signature's file, next to the files that it signs."""
UNSIGNED: Final = frozenset({SIGNATURE, "hone.json", "registered_model_meta"})
"""Files of a version that are not signed: a registry adds them when the others are complete."""
VERSION_FILES: Final = "hone-files.json"
"""The manifest of all other files of a version; it is signed too."""
CURVES: Final[Mapping[str, str]] = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}
PEM: Final = "-----BEGIN"
"""The prefix of a key that is given as text, not as a file."""
INSTALL: Final = "Install it: pip install 'kedro-hone[signing]'."


class Policy(Value):
    """The required signer of a version, checked before loading: one of some keys, or a Sigstore identity.

    Attributes:
        keys: The signers' public keys on elliptic curves (P-256, P-384 or P-521): PEM files, or PEM text itself.
        identity: The Sigstore identity of the signer, such as an address or the URI of a workflow; needs ``issuer``.
        issuer: The issuer of that identity, such as ``https://token.actions.githubusercontent.com``.
        name: The model name that must be signed; by default the one in the URI.
        source: The digest of the model that it must have been made from, as in the tag ``hone.source_digest``. Without
            it, an older signed version of the same model passes.
    """

    keys: tuple[str | Path, ...] = ()
    identity: str | None = Field(None, min_length=1)
    issuer: str | None = Field(None, min_length=1)  # sigstore does not compare an empty issuer
    name: str | None = Field(None, min_length=1)  # an empty name would not be compared
    source: str | None = Field(None, pattern="^sha256:")

    @model_validator(mode="after")
    def _name_one_signer(self) -> Policy:
        if (self.identity is None) != (self.issuer is None) or bool(self.keys) == bool(self.identity):
            raise ValueError("a policy names keys, or an identity with its issuer")
        return self


def check_curve(key: Any) -> EllipticCurvePublicKey:
    """Return a public key of a kind that model-signing supports; ``ValueError`` for others."""
    curve = getattr(getattr(key, "curve", None), "name", type(key).__name__)
    if curve not in CURVES:
        raise ValueError(f"it is {curve}, and none of {', '.join(CURVES)}")
    checked: EllipticCurvePublicKey = key
    return checked


def explain_unusable(why: str, *, hint: str) -> HoneError:
    """Return the error for a key, an identity or a package that a signature needs and that cannot be used."""
    return HoneError("signing-unusable", "What signs, or checks signatures, cannot be used.", why=why, hint=hint)
