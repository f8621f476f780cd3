"""Sign a version at publication: with a private key or a Sigstore identity, which only the environment names.

A recipe cannot name it: a person who may change a recipe must not choose the signer.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

from hone_runtime.signing.policy import INSTALL, SIGNATURE, UNSIGNED, check_curve, explain_unusable
from hone_runtime.values.manifest import measure_files

SIGNING_KEY: Final = "HONE_SIGNING_KEY"
"""The variable that enables the signing of publications: the file of a private key (PEM), or ``sigstore``."""
PASSWORD: Final = "HONE_SIGNING_KEY_PASSWORD"  # noqa: S105 - the variable's name
SIGSTORE: Final = "sigstore"


@dataclass(frozen=True, kw_only=True)
class Signer:
    """The key or identity that signs publications.

    Attributes:
        key: The file of the private key; None for Sigstore.
        public: The public key as text; empty for Sigstore.
        name: ``sha256:…`` of that text, or ``sigstore``.
    """

    key: Path | None = None
    password: bytes | None = field(default=None, repr=False)
    public: str = ""
    name: str = SIGSTORE


def find_signer(variables: Mapping[str, str] = os.environ) -> Signer | None:
    """Return the signer of publications, checked as far as possible before there is a publication; or None.

    Raises:
        HoneError: ``signing-unusable``: the key or the package cannot be used, or Sigstore finds no identity.
    """
    chosen = variables.get(SIGNING_KEY)
    if not chosen:
        return None
    if importlib.util.find_spec("model_signing") is None:
        raise explain_unusable(f"{SIGNING_KEY} is set, and model-signing is not installed.", hint=INSTALL)
    if chosen == SIGSTORE:
        _find_identity()
        return Signer()
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where something is signed
    from cryptography.hazmat.primitives import serialization as pem  # noqa: PLC0415

    password = variables.get(PASSWORD, "").encode() or None
    try:
        private: Any = pem.load_pem_private_key(Path(chosen).read_bytes(), password)
        public = check_curve(private.public_key())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        hint = f"Set {SIGNING_KEY} to the file of an elliptic private key in PEM, and {PASSWORD} where it has one."
        raise explain_unusable(f"The key that {SIGNING_KEY} names cannot be used: {error}", hint=hint) from error
    text = public.public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo).decode()
    return Signer(key=Path(chosen), password=password, public=text, name=f"sha256:{sha256(text.encode()).hexdigest()}")


def sign_version(folder: Path, signer: Signer, *, name: str) -> None:
    """Write the signature of a complete version: it covers every file but ``UNSIGNED``, and the model's name.

    Raises:
        HoneError: ``signing-unusable``: Sigstore cannot be reached, or issues no certificate.
    """
    from model_signing import hashing, signing  # noqa: PLC0415 - only where something is signed

    class Files:
        """Hashes the files by name, since the folder itself is a link with the name of the model."""

        def hash(self, place: Path) -> Any:
            chosen = [Path(place, name) for name in measure_files(folder) if name not in UNSIGNED]
            config = hashing.Config().set_ignored_paths(paths=sorted(UNSIGNED), ignore_git_paths=False)
            return config.hash(place, files_to_hash=chosen)

    config, token = signing.Config().set_hashing_config(Files()), None if signer.key else _find_identity()
    with TemporaryDirectory() as scratch:
        link = Path(scratch, PurePosixPath(name).name)
        link.symlink_to(folder.resolve())
        try:
            if signer.key is None:
                config.use_sigstore_signer(identity_token=token)
            else:
                config.use_elliptic_key_signer(private_key=signer.key, password=signer.password)
            config.sign(link, folder / SIGNATURE)
        except Exception as error:  # from many libraries, for a network, a server or a certificate
            hint = "Nothing was published. Try again; what was built and measured is kept."
            raise explain_unusable(f"Signing failed: {error!r}", hint=hint) from error


def _find_identity() -> str:
    """Return the identity token that this process has without interaction, such as in a CI job; opens no browser."""
    from sigstore import oidc  # noqa: PLC0415 - slow to import, and only for identities

    try:
        token, why = oidc.detect_credential(), ""
    except oidc.IdentityError as error:
        token, why = None, f" {error}."
    if not token:
        hint = (
            f"Let the job ask for one (on GitHub: permissions: id-token: write), or set {SIGNING_KEY} to a key's file."
        )
        raise explain_unusable(f"Sigstore finds no identity in this environment.{why}", hint=hint)
    return str(token)
