"""Verify the signature of a published version before it is loaded.

``model.sig`` has the format of OpenSSF's model-signing: an in-toto statement with the digest of every file, in a
Sigstore bundle. A key's signature is checked with ``cryptography`` alone, since importing model-signing takes longer
than reading 100 MB. An identity's signature is checked by ``sigstore``.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER
from hone_runtime.errors import HoneError
from hone_runtime.signing.policy import (
    CURVES,
    INSTALL,
    PEM,
    SIGNATURE,
    UNSIGNED,
    VERSION_FILES,
    Policy,
    check_curve,
    explain_unusable,
)
from hone_runtime.values.digest import digest_file
from hone_runtime.values.manifest import Manifest, UnsealableError, measure_files
from hone_runtime.values.regular import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey


_LARGEST: Final = 16 * 1024 * 1024
_NOTED: Final = "registered_model_meta"
_HOME: Final = "-hone"
"""The suffix of the name of a folder with the winners of a model."""
_STATEMENT: Final = {
    "_type": "https://in-toto.io/Statement/v1",
    "predicateType": "https://model_signing/signature/v1.0",
}


def verify_version(folder: Path, policy: Policy, *, name: str | None = None) -> dict[Path, str]:
    """Check the signature of a version, and that its files are exactly those that were signed.

    Args:
        folder: The whole version, as downloaded.
        policy: The required signer.
        name: The requested name of the model; None if only a folder is known.

    Returns:
        ``sha256:…`` of every signed file; these files need not be read again.

    Raises:
        HoneError: ``signature-invalid``, or ``signing-unusable``: a key or a package cannot be used.
    """
    try:
        text = read_regular(folder / SIGNATURE, limit=_LARGEST)
    except (OSError, ValueError) as error:
        why = f"There is no {SIGNATURE} in it: it was not signed, or the signature was removed."
        raise _invalid(why) from error
    try:
        payload = _open_by_key(text, policy) if policy.keys else _open_by_identity(text, policy)
        signed, files = _read_statement(payload)
        present = measure_files(folder).keys() - UNSIGNED
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, UnsealableError) as error:
        raise _invalid(f"The signature cannot be read: {error!r}.") from error
    if odd := sorted(files.keys() ^ present):
        raise _invalid(f"{odd[0]} is {'missing' if odd[0] in files else 'not among the files that were signed'}.")
    digests = {folder / each: digest_file(folder / each) for each in files}
    if changed := [each for each in files if digests[folder / each] != files[each]]:
        raise _invalid(f"{changed[0]} is not the file that was signed.")
    _check_name(policy.name or name, signed, whole=_read_model(folder) if VERSION_FILES in files else None)
    if policy.source and (source := _read_source(folder)) != policy.source:
        raise _invalid(f"It was made from {source}, and the policy asks for {policy.source}: perhaps an older version.")
    return digests


def find_model_name(folder: Path) -> str | None:
    """Return the model that a folder is a version of; None if unknown.

    It is known from the folder's place in a registry of plain paths, or from MLflow's note of the downloaded model.
    """
    place = folder.resolve()
    name = place.parent.name.removesuffix(_HOME)
    if place.name.isdecimal() and name != place.parent.name:
        return name
    try:
        text = read_regular(place / _NOTED, limit=_LARGEST).decode()
    except (OSError, ValueError):
        return None
    found = re.search(r"^model_name: *(.+?) *$", text, re.MULTILINE)
    return found[1].strip("'\"") if found else None


def _check_name(wanted: str | None, signed: str, *, whole: str | None) -> None:
    """Refuse a version of another model than the one being loaded; ``whole`` is its name if the version was signed."""
    if wanted is None:  # the user gives a folder, and its model is unknown
        return
    if not wanted:  # a logged model, or an artifact of a run
        raise _invalid("The URI names no registered model: state the expected name, Policy(…, name=…).")
    other = "/" in wanted and whole is not None and "/" in whole and whole != wanted
    if PurePosixPath(wanted).name != signed or other:
        raise _invalid(f"It was signed as a version of {whole or signed!r}, but {wanted!r} was requested.")


def _read_model(folder: Path) -> str | None:
    """Return the name of the model in the manifest of a version."""
    try:
        attributes = Manifest.read(folder / VERSION_FILES).attributes
    except (OSError, ValueError) as error:
        raise _invalid(f"{VERSION_FILES} cannot be read: {error!s:.200}.") from error
    return (
        attributes.get("model") if isinstance(attributes, dict) and isinstance(attributes.get("model"), str) else None
    )


def describe_signature(folder: Path) -> str:
    """Return the signature's own description of its key, which is not verified; empty if there is no signature."""
    try:
        material = json.loads(read_regular(folder / SIGNATURE, limit=_LARGEST))["verificationMaterial"]
        return f"of the key sha256:{material['publicKey']['hint']}" if "publicKey" in material else "of Sigstore"
    except FileNotFoundError:
        return ""
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return "that cannot be read"


def _open_by_key(text: bytes, policy: Policy) -> bytes:
    """Return the statement that one of the keys signed: DSSE (https://github.com/secure-systems-lab/dsse), ECDSA."""
    keys = [_read_key(key) for key in policy.keys]
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only where signatures are checked
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA  # noqa: PLC0415

    envelope = json.loads(text)["dsseEnvelope"]
    payload, kind = b64decode(envelope["payload"], validate=True), envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    signature = b64decode(envelope["signatures"][0]["sig"], validate=True)
    for key in keys:
        try:
            key.verify(signature, signed, ECDSA(getattr(hashes, CURVES[key.curve.name])()))
        except InvalidSignature:
            continue
        return _check_kind(kind.decode(), payload)
    raise _invalid("None of the policy's keys signed it.")


def _open_by_identity(text: bytes, policy: Policy) -> bytes:
    try:
        from sigstore.errors import VerificationError  # noqa: PLC0415 - slow, and only for identities
        from sigstore.models import Bundle, InvalidBundle  # noqa: PLC0415
        from sigstore.verify import Verifier  # noqa: PLC0415
        from sigstore.verify.policy import Identity  # noqa: PLC0415
    except ImportError as error:
        raise explain_unusable(f"sigstore cannot be imported: {error}", hint=INSTALL) from error
    try:
        bundle = Bundle.from_json(text)
    except InvalidBundle as error:
        raise _invalid(f"It has no signature of Sigstore: {error}.") from error
    try:
        verifier = Verifier.production()
    except Exception as error:  # the package fetches data, through many libraries
        raise explain_unusable(
            f"Sigstore's own keys cannot be fetched: {error!r}", hint="Check the network."
        ) from error
    try:
        return _check_kind(*verifier.verify_dsse(bundle, Identity(identity=str(policy.identity), issuer=policy.issuer)))
    except VerificationError as error:
        raise _invalid(f"Sigstore reports: {error}.") from error


def _check_kind(kind: str, payload: bytes) -> bytes:
    if kind != "application/vnd.in-toto+json":
        raise ValueError(f"{kind} was signed")
    return payload


def _read_statement(payload: bytes) -> tuple[str, dict[str, str]]:
    """Return the model's name and each file's digest in a statement; ValueError if it is of another kind."""
    statement = json.loads(payload)
    predicate, (subject,) = statement["predicate"], statement["subject"]
    serialization = predicate["serialization"]
    known = {key: statement[key] for key in _STATEMENT} == _STATEMENT
    if not known or (serialization["method"], serialization["hash_type"]) != ("files", "sha256"):
        raise ValueError("it is not a statement of model-signing about whole files")
    files = {str(one["name"]): f"{one['algorithm']}:{one['digest']}" for one in predicate["resources"]}
    return str(subject["name"]), files


def _read_source(folder: Path) -> object:
    try:
        return json.loads((folder / EVIDENCE_FOLDER / EVIDENCE).read_bytes())["source"]["digest"]
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return "an unknown source"


def _read_key(key: str | Path) -> EllipticCurvePublicKey:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where signatures are checked
        from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415
    except ImportError as error:
        raise explain_unusable(f"cryptography cannot be imported: {error}", hint=INSTALL) from error
    try:
        text = str(key).encode() if str(key).startswith(PEM) else Path(key).read_bytes()
        return check_curve(load_pem_public_key(text))
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        hint = "Name the file of an elliptic public key in PEM, as `openssl ec -pubout` writes it."
        raise explain_unusable(f"The policy's key cannot be used: {error}", hint=hint) from error


def _invalid(why: str) -> HoneError:
    return HoneError(
        "signature-invalid",
        "The version is not signed as the policy asks for; nothing of it was opened.",
        why=why,
        hint="Ask who publishes the model, and load another version or change the policy if that is right.",
    )
