"""The signature of a published version, as it is checked before the version is loaded.

``model.sig`` is what OpenSSF's model-signing writes: an in-toto statement with the digest of every file, in a Sigstore
bundle. A key's signature is checked with ``cryptography`` alone, since importing that package takes longer than reading
100 MB; an identity's is checked by ``sigstore``.
"""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from kedro_hone.core.contract.proof import EVIDENCE, EVIDENCE_FOLDER
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.manifest import UnsealableError, measure_files
from kedro_hone.core.values.digest import digest_file
from kedro_hone.core.values.regular import read_regular
from kedro_hone.signing.policy import CURVES, INSTALL, SIGNATURE, UNSIGNED, Policy, check_curve, explain_unusable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey


_LARGEST: Final = 16 * 1024 * 1024
_STATEMENT: Final = {
    "_type": "https://in-toto.io/Statement/v1",
    "predicateType": "https://model_signing/signature/v1.0",
}


def verify_version(folder: Path, policy: Policy, *, name: str | None = None) -> dict[Path, str]:
    """Check the signature of a version, and that its files are those that were signed, no more and no less.

    Args:
        folder: The whole version, as it was downloaded.
        policy: Whose signature it must have.
        name: The name of the model as it was asked for; None where only a folder is known.

    Returns:
        ``sha256:…`` of every signed file, which need not be read again.

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
    wanted = policy.name or name
    if wanted and PurePosixPath(wanted).name != signed:
        raise _invalid(f"It was signed as a version of {signed!r}, and {wanted!r} was asked for.")
    if policy.source and (source := _read_source(folder)) != policy.source:
        raise _invalid(f"It was made from {source}, and the policy asks for {policy.source}: perhaps an older version.")
    return digests


def describe_signature(folder: Path) -> str:
    """Return what a signature says of its key, which nobody checked; empty where there is none."""
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
    except Exception as error:  # it is fetched; of many libraries
        raise explain_unusable(
            f"Sigstore's own keys cannot be fetched: {error!r}", hint="Check the network."
        ) from error
    try:
        return _check_kind(*verifier.verify_dsse(bundle, Identity(identity=str(policy.identity), issuer=policy.issuer)))
    except VerificationError as error:
        raise _invalid(f"Sigstore says: {error}.") from error


def _check_kind(kind: str, payload: bytes) -> bytes:
    if kind != "application/vnd.in-toto+json":
        raise ValueError(f"{kind} was signed")
    return payload


def _read_statement(payload: bytes) -> tuple[str, dict[str, str]]:
    """Return the model's name and each file's digest that a statement names; ValueError where it is another kind."""
    statement = json.loads(payload)
    predicate, (subject,) = statement["predicate"], statement["subject"]
    serialization = predicate["serialization"]
    known = {key: statement[key] for key in _STATEMENT} == _STATEMENT
    if not known or (serialization["method"], serialization["hash_type"]) != ("files", "sha256"):
        raise ValueError("it is no statement of model-signing about whole files")
    files = {str(one["name"]): f"{one['algorithm']}:{one['digest']}" for one in predicate["resources"]}
    return str(subject["name"]), files


def _read_source(folder: Path) -> object:
    try:
        return json.loads((folder / EVIDENCE_FOLDER / EVIDENCE).read_bytes())["source"]["digest"]
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return "what its evidence does not say"


def _read_key(key: str | Path) -> EllipticCurvePublicKey:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where signatures are checked
        from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415
    except ImportError as error:
        raise explain_unusable(f"cryptography cannot be imported: {error}", hint=INSTALL) from error
    try:
        text = str(key).encode() if str(key).startswith("-----BEGIN") else Path(key).read_bytes()
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
