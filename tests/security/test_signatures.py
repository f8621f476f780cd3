"""A version that is not signed as the consumer asks is not opened, whoever can write to the registry.

Every attack starts from a version that is published and signed, and that the policy accepts.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from proof import SOURCE_DIGEST, reseal, write_evidence
from small_project import copy_project

import kedro_hone
from hone_runtime.contract.aliases import PULL
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.proof import GOLDEN
from hone_runtime.contract.tags import SIGNER, make_tags
from hone_runtime.errors import ExitCode, HoneError
from hone_runtime.learner.golden import make_golden
from hone_runtime.learner.versions import write_version_files
from hone_runtime.signing.sign import PASSWORD, SIGNING_KEY, find_signer, sign_version
from hone_runtime.signing.verify import describe_signature, verify_version
from hone_runtime.values.digest import digest_file
from hone_runtime.values.manifest import Manifest
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.cli import hone
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.preflight import find_problems
from kedro_hone.search.sources.recognition import _is_ours
from kedro_hone.sources.openers import write_source

X = np.ones((2, 4), np.float32)


def write_keys(folder: Path, name: str, *, curve=ec.SECP256R1, password: bytes | None = None) -> tuple[Path, Path]:
    """Write a pair of keys, the private one first."""
    key = ec.generate_private_key(curve())
    pem = serialization.Encoding.PEM
    locked = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private, public = folder / f"{name}-private.pem", folder / f"{name}.pem"
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, locked))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def keys(tmp_path, monkeypatch) -> tuple[Path, Path]:
    """The publisher's keys; publications are signed from now on."""
    private, public = write_keys(tmp_path, "publisher")
    monkeypatch.setenv(SIGNING_KEY, str(private))
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return private, public


@pytest.fixture
def policy(keys) -> kedro_hone.Policy:
    return kedro_hone.Policy(keys=(keys[1],))


@pytest.fixture
def publish(tmp_path, keys, prove, make_winner):
    """Return a function that publishes a version of a model and returns its URI or place."""

    def publish(registry=None, name: str = "models/net", before=None, **run):
        winner, signer = prove(make_winner(), **run), find_signer()
        tags = make_tags(winner, recipe="sha256:2") | ({SIGNER: signer.name} if signer else {}) | {PULL: "1"}
        registry = registry or LocalRegistry(tmp_path)
        return registry.publish(winner, name=name, tags=tags, alias="honed", before=before).uri

    return publish


@pytest.fixture
def signed(publish) -> Path:
    return Path(publish())


def catch(call):
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def refuse(place: Path | str, policy: kedro_hone.Policy) -> str:
    error = catch(lambda: kedro_hone.load(place, verify=policy))
    assert error.slug == "signature-invalid"
    return error.why


def call(*arguments: object):
    return CliRunner().invoke(hone, ["verify", *map(str, arguments)])


def test_a_signed_version_loads_and_is_what_others_verify(signed, policy, keys):
    from model_signing import verifying

    outputs = kedro_hone.load(signed, verify=policy)(X)
    np.testing.assert_array_equal(outputs, kedro_hone.load(signed)(X))
    text = kedro_hone.Policy(keys=(keys[1].read_text(),))
    assert kedro_hone.load(signed, verify=text).artifact.format == "onnx"
    verifying.Config().use_elliptic_key_verifier(public_key=keys[1]).verify(signed, signed / "model.sig")


def test_what_mlflow_stores_and_downloads_is_what_was_signed(publish, registry, policy, tmp_path):
    uri = publish(MlflowRegistry(), "net")
    assert kedro_hone.load(uri, verify=policy).artifact.format == "onnx"
    MlflowRegistry().pull(uri, tmp_path / "pulled")
    read = verify_version(tmp_path / "pulled", policy, name="net")
    names = {path.relative_to(tmp_path / "pulled").as_posix() for path in read}
    assert names >= {"MLmodel", "artifact/artifact.json", "artifact/model.onnx", "evidence/evidence.json"}


@pytest.mark.attack(
    what="a version signed by somebody else",
    who="registry",
    stopped_by="the policy's keys",
)
def test_a_version_of_an_unknown_key_is_refused(signed, tmp_path):
    strangers = tuple(write_keys(tmp_path, f"stranger{number}")[1] for number in range(2))
    assert "None of the policy's keys" in refuse(signed, kedro_hone.Policy(keys=strangers))


def test_one_of_several_keys_is_enough(signed, keys, tmp_path):
    policy = kedro_hone.Policy(keys=(write_keys(tmp_path, "old", curve=ec.SECP384R1)[1], keys[1]))
    assert kedro_hone.load(signed, verify=policy).artifact.format == "onnx"


@pytest.mark.attack(
    what="a signature that was removed",
    who="registry",
    stopped_by="a policy asks for one",
)
def test_a_stripped_signature_is_refused(signed, policy):
    (signed / "model.sig").unlink()
    assert "it was not signed" in refuse(signed, policy)
    assert kedro_hone.load(signed).artifact.format == "onnx"  # data, and nobody asked for a signature


def change_model(place: Path) -> None:
    path = place / "artifact" / "model.onnx"
    path.write_bytes(path.read_bytes().replace(b"matrix", b"MATRIX"))
    reseal(place / "artifact")


def change_evidence(place: Path) -> None:
    path = place / "evidence" / "evidence.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"speedup": 200.8}))


def change_loader(place: Path) -> None:
    path = place / "MLmodel"
    path.write_text(path.read_text().replace("hone_runtime.learner.pyfunc", "evil"))


def add(name: str):
    def add(place: Path) -> None:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("import os")

    return add


def add_link(place: Path) -> None:
    (place / "link").symlink_to("/etc/passwd")


def remove(place: Path) -> None:
    (place / "requirements.txt").unlink()


def link_out(path: Path) -> None:
    """Put a link to the same content in a file's place: it could lead to what never ends, such as /dev/zero."""
    outside = path.rename(path.parents[2] / "outside")
    path.symlink_to(outside)


@pytest.mark.attack(
    what="a signed version in which a model, evidence, loader, file, folder or link was changed, added or removed",
    who="registry",
    stopped_by="the signature covers every file of the version",
)
@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (change_model, "artifact/artifact.json is not the file that was signed"),
        (change_evidence, "evidence/evidence.json is not the file that was signed"),
        (change_loader, "MLmodel is not the file that was signed"),
        (add("evil.py"), "evil.py is not among the files that were signed"),
        (add("artifact/evil.so"), "artifact/evil.so is not among"),
        (add(".git/config"), ".git/config is not among"),
        (add("registered_model_meta/evil.py"), "registered_model_meta/evil.py is not among"),
        (add_link, "link is neither a file nor a folder"),
        (remove, "requirements.txt is missing"),
    ],
    ids=["model", "evidence", "loader", "file", "library", "git", "folder", "link", "removed"],
)
def test_a_signed_version_that_was_changed_is_refused(signed, policy, attack, said):
    attack(signed)
    assert said in refuse(signed, policy)


@pytest.mark.attack(
    what="the signature of another version",
    who="registry",
    stopped_by="the signature names every file's digest",
)
def test_a_signature_of_another_version_is_refused(publish, signed, policy):
    other = Path(publish(run_id="2"))
    assert other != signed
    shutil.copy(other / "model.sig", signed / "model.sig")
    assert "is not the file that was signed" in refuse(signed, policy)


@pytest.mark.attack(
    what="a signed version under the name of another model",
    who="registry",
    stopped_by="the signature names the model",
)
def test_a_signed_version_of_another_model_is_refused(publish, registry, policy):
    """Whole and signed by the right key, and registered where another model is asked for."""
    import mlflow

    client = mlflow.MlflowClient()
    publish(MlflowRegistry(), "net")
    other = client.get_model_version("other", "1") if publish(MlflowRegistry(), "other", run_id="2") else None
    moved = client.create_model_version("net", source=other.source, run_id=other.run_id, tags=other.tags)
    client.set_registered_model_alias("net", "honed", moved.version)
    assert "signed as a version of 'other', but 'net' was requested" in refuse("models:/net@honed", policy)
    assert kedro_hone.load("models:/net/1", verify=policy).artifact.format == "onnx"


@pytest.mark.attack(
    what="a signed version in the folder of another model, or downloaded as one of another, and loaded by path",
    who="registry",
    stopped_by="the signature names the model, and where a folder says which it is, that is compared",
)
@pytest.mark.parametrize("way", ["copied", "linked", "noted", "verified"])
def test_a_signed_version_in_the_folder_of_another_model_is_refused(signed, policy, keys, tmp_path, way):
    place = tmp_path / "models" / "other-hone" / "1"
    if way == "noted":
        place = tmp_path / "download"
    shutil.copytree(signed, place)
    if way == "linked":
        (place.parent / "honed").symlink_to("1")
        place = place.parent / "honed"
    if way == "noted":  # as MLflow does
        (place / "registered_model_meta").write_text("model_name: other\nmodel_version: '1'\n")
    if way == "verified":
        done = call(place, "--key", keys[1])
        assert (done.exit_code, "signed as a version of 'net'" in done.output) == (ExitCode.INPUT, True)
        return
    assert "signed as a version of 'net', but 'other' was requested" in refuse(place, policy)
    named = policy.model_copy(update={"name": "net"})
    assert kedro_hone.load(place, verify=named).artifact.format == "onnx"


@pytest.mark.attack(
    what="a signed version of a model of the same last name, such as org/net for other/net",
    who="registry",
    stopped_by="the whole name of the model is among what is signed",
)
def test_a_signed_version_of_another_owner_is_refused(signed, policy, keys):
    said = json.loads((signed / "hone-files.json").read_text())
    write_version_files(signed, model="org/net")
    assert Manifest.read(signed / "hone-files.json").digest != said["digest"]
    retag(signed, **{"hone.files": Manifest.read(signed / "hone-files.json").digest})
    (signed / "model.sig").unlink()
    sign_version(signed, find_signer(), name="org/net")
    for name, fits in {"org/net": True, "net": True, "other/net": False, "other": False}.items():
        named = policy.model_copy(update={"name": name})
        if fits:
            assert kedro_hone.load(signed, verify=named).artifact.format == "onnx"
        else:
            assert "signed as a version of 'org/net'" in refuse(signed, named)


@pytest.mark.attack(
    what="tags that name another source for a signed winner, which is loaded where the winner does not run",
    who="registry",
    stopped_by="of a signed version only the evidence says which source it is",
)
def test_the_registry_does_not_say_which_source_takes_a_signed_winners_place(
    publish, registry, policy, make_winner, tmp_path
):
    import mlflow

    winner, rows = make_winner(), {"x": np.ones((1, 4), np.float32)}
    evidence = tmp_path / f"evidence-1-{winner.digest[-8:]}"
    write_evidence(evidence, winner)
    wrong, sealed = {"y": np.ones((1, 3), np.float32)}, winner.model_copy(update={"metadata": {"source": "onnx"}})
    golden = make_golden(rows, wrong, rows=1, largest_error=0.1, source=sealed, host=read_host())
    (evidence / GOLDEN).write_text(golden.model_dump_json())
    publish(MlflowRegistry(), "net")
    (tmp_path / "evil").mkdir()
    shutil.copy(tmp_path / "sealed" / "model.onnx", tmp_path / "evil")
    made = write_source(tmp_path / "evil", tmp_path / "files", sealed.manifest())
    client = mlflow.MlflowClient()
    for tag, value in {"hone.source": str(tmp_path / "evil"), "hone.source_digest": made.digest}.items():
        client.set_model_version_tag("net", "1", tag, value)
    with pytest.warns(RuntimeWarning, match="its source is loaded"):
        assert kedro_hone.load("models:/net/1").source_uri == str(tmp_path / "evil")
    error = catch(lambda: kedro_hone.load("models:/net/1", verify=policy))
    assert (error.slug, "digits" in error.why) == ("winner-differs", True)


@pytest.mark.attack(
    what="an older signed version under the alias",
    who="registry",
    stopped_by="a policy that names the source",
)
def test_an_older_signed_version_is_refused_where_the_policy_names_the_source(signed, policy):
    """What is left: an older version from the same source is signed like the newer one."""
    kedro_hone.load(signed, verify=policy.model_copy(update={"source": SOURCE_DIGEST}))
    newer = policy.model_copy(update={"source": "sha256:newer"})
    assert "perhaps an older version" in refuse(signed, newer)


def sign_again(place: Path, private: Path, *, kind: str, statement: dict) -> None:
    """Put a statement of another kind, that the right key signed for something else, into the signature."""
    key = serialization.load_pem_private_key(private.read_bytes(), None)
    payload = json.dumps(statement).encode()
    text = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
    bundle = json.loads((place / "model.sig").read_text())
    envelope = bundle["dsseEnvelope"]
    envelope |= {"payload": base64.b64encode(payload).decode(), "payloadType": kind}
    envelope["signatures"][0]["sig"] = base64.b64encode(key.sign(text, ec.ECDSA(hashes.SHA256()))).decode()
    (place / "model.sig").write_text(json.dumps(bundle))


@pytest.mark.attack(
    what="another statement that was signed by the same key",
    who="registry",
    stopped_by="type and predicate of the statement are compared",
)
@pytest.mark.parametrize("change", ["kind", "predicate", "method", "none"])
def test_another_statement_of_the_same_key_is_no_signature(signed, policy, keys, change):
    bundle = json.loads((signed / "model.sig").read_text())
    statement, kind = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"])), "application/vnd.in-toto+json"
    if change == "kind":
        kind = "text/plain"
    elif change == "predicate":
        statement["predicateType"] = "https://slsa.dev/provenance/v1"
    elif change == "method":
        statement["predicate"]["serialization"]["method"] = "shards"
    sign_again(signed, keys[0], kind=kind, statement=statement)
    if change == "none":
        assert kedro_hone.load(signed, verify=policy).artifact.format == "onnx"
    else:
        assert "cannot be read" in refuse(signed, policy)


@pytest.mark.attack(
    what="a signature file that is none, or is nested without end",
    who="registry",
    stopped_by="read in bounded size and depth",
)
@pytest.mark.parametrize(
    "text", ["", "{}", "[" * 100_000, '{"dsseEnvelope": 3}', '{"dsseEnvelope": {"payload": "*", "payloadType": "a"}}']
)
def test_a_signature_that_is_none_is_refused(signed, policy, text):
    (signed / "model.sig").write_text(text)
    assert "cannot be read" in refuse(signed, policy)
    assert "that cannot be read" in call(signed).output


def test_verify_says_that_a_folder_or_a_link_is_no_signature(signed):
    link_out(signed / "model.sig")
    assert describe_signature(signed) == "that cannot be read"
    (signed / "model.sig").unlink()
    (signed / "model.sig").mkdir()
    assert describe_signature(signed) == "that cannot be read"
    (signed / "model.sig").rmdir()
    (signed / "model.sig").write_text('{"verificationMaterial": {"publicKey": {"hint": "\\ud800"}}}')
    assert "sha256:\ufffd" in call(signed).output


def test_verify_says_what_was_checked_and_what_was_not(signed, keys):
    done = call(signed, "--key", keys[1])
    assert done.exit_code == ExitCode.SUCCESS
    assert [line.split()[:2] for line in done.output.splitlines()] == [
        [name, "checked:"] for name in ("files", "tags", "evidence", "signature")
    ]
    done = call(signed)
    assert done.exit_code == ExitCode.SUCCESS
    assert f"signature  NOT checked: it is of the key {find_signer().name}; name --key" in done.output
    (signed / "model.sig").unlink()
    assert "signature  NOT checked: none" in call(signed).output
    done = call(signed, "--key", keys[1])
    assert (done.exit_code, "signature-invalid" in done.output) == (ExitCode.INPUT, True)


def retag(place: Path, **tags: str) -> None:
    path = place / "hone.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | tags))


@pytest.mark.attack(
    what="evidence of a version that was changed or removed",
    who="registry",
    stopped_by="`kedro hone verify` computes the publication's identity again",
)
@pytest.mark.parametrize(
    ("attack", "slug"),
    [
        (lambda place: (place / "evidence" / "timings.npz").write_bytes(b"faster"), "evidence-incomplete"),
        (change_evidence, "evidence-incomplete"),
        (lambda place: (place / "evidence" / "report.md").unlink(), "evidence-incomplete"),
        (lambda place: link_out(place / "evidence" / "report.md"), "evidence-incomplete"),
        (lambda place: retag(place, **{"hone.source_digest": "sha256:other"}), "evidence-incomplete"),
        (lambda place: retag(place, **{"hone.run": "other"}), "evidence-incomplete"),
        (change_model, "model-corrupt"),
    ],
    ids=["timings", "evidence", "removed", "link", "source", "run", "model"],
)
def test_verify_finds_what_was_changed_without_any_key(publish, monkeypatch, attack, slug):
    monkeypatch.delenv(SIGNING_KEY)
    place = Path(publish())
    assert not (place / "model.sig").exists()
    assert call(place).exit_code == ExitCode.SUCCESS
    attack(place)
    done = call(place)
    assert (done.exit_code, slug in done.output) == (ExitCode.INPUT, True)


def test_a_folder_that_was_downloaded_is_verified_too(publish, registry, keys, tmp_path):
    import mlflow

    uri = publish(MlflowRegistry(), "net")
    mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(tmp_path / "pulled"))  # as its command does
    assert call(uri, "--key", keys[1]).exit_code == ExitCode.SUCCESS
    done = call(tmp_path / "pulled", "--key", keys[1])
    assert (done.exit_code, "tags       NOT checked" in done.output) == (ExitCode.SUCCESS, True)
    done = call(tmp_path / "pulled", "--key", keys[1], "--name", "other")
    assert (done.exit_code, "as a version of 'net'" in done.output) == (ExitCode.INPUT, True)


@pytest.mark.attack(
    what="an unsigned version that is published first, to stand for the signed one",
    who="registry",
    stopped_by="a signed version is made of its own",
)
def test_a_version_that_was_not_signed_does_not_stand_for_one_that_is(publish, keys, policy, monkeypatch):
    """The same publication again, with a key now: a version that is signed is made before the alias moves."""
    monkeypatch.delenv(SIGNING_KEY)
    unsigned = Path(publish(before={}))
    monkeypatch.setenv(SIGNING_KEY, str(keys[0]))
    signed = Path(publish(before={}))
    assert (unsigned.name, signed.name) == ("1", "2")
    assert publish(before={}) == str(signed)
    assert (signed.parent / "honed").resolve() == signed
    assert kedro_hone.load(signed, verify=policy).artifact.format == "onnx"


@pytest.mark.attack(
    what="a signing key that is missing, public, or of another kind",
    who="nobody",
    stopped_by="checked before anything is pulled",
)
@pytest.mark.parametrize("harm", ["missing", "public", "rsa", "curve", "password", "text"])
def test_a_key_that_cannot_sign_stops_a_run_before_anything_is_pulled(tmp_path, monkeypatch, harm):
    private, public = write_keys(tmp_path, "locked", password=b"open sesame")
    path = {"missing": tmp_path / "none.pem", "public": public, "password": private}.get(harm, tmp_path / "odd.pem")
    if harm == "curve":
        path = write_keys(tmp_path, "odd", curve=ec.SECP256K1)[0]
    elif harm == "rsa":
        from cryptography.hazmat.primitives.asymmetric import rsa

        forms = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path.write_bytes(rsa.generate_private_key(65537, 2048).private_bytes(*forms))
    elif harm == "text":
        path.write_text("my key")
    monkeypatch.setenv(SIGNING_KEY, str(path))
    monkeypatch.setenv(PASSWORD, "open lemon")
    recipe = read_recipe({"model": {"uri": "models:/nowhere/1"}})
    run = RunFolder(root=tmp_path, run_id="1", project=tmp_path)
    found = find_problems(gate=None, recipe=recipe, store=None, run=run)
    assert "signing-unusable" in [error.slug for error in found]
    monkeypatch.setenv(PASSWORD, "open sesame")
    if harm == "password":
        assert find_signer().key == private


def test_a_winner_that_this_publisher_signed_is_trusted_as_a_source(signed, tmp_path, monkeypatch):
    version = LocalRegistry(tmp_path).resolve(str(signed))
    assert _is_ours(signed, version)
    monkeypatch.setenv(SIGNING_KEY, str(write_keys(tmp_path, "stranger")[0]))
    assert not _is_ours(signed, version)


@pytest.mark.parametrize(
    "harm",
    [
        {},
        {"identity": "a@b.c"},
        {"issuer": "https://b.c"},
        {"keys": ["a"], "identity": "a"},
        {"identity": "a@b.c", "issuer": ""},  # sigstore compares no issuer then: `--issuer "$UNSET"`
        {"identity": "", "issuer": "https://b.c"},
        {"keys": ["a"], "identity": "", "issuer": ""},
        {"keys": ["a"], "name": ""},
    ],
)
def test_a_policy_names_one_kind_of_signer(harm):
    with pytest.raises(ValueError, match=r"keys, or an identity with its issuer|at least 1 character"):
        kedro_hone.Policy(**harm)


@pytest.mark.attack(
    what="an empty setting in the place of a policy",
    who="nobody",
    stopped_by="what is neither a policy nor None is a TypeError",
)
@pytest.mark.parametrize("verify", ["", {}, [], 0, False, "publisher.pem"])
def test_what_is_no_policy_is_no_permission(signed, verify):
    with pytest.raises(TypeError, match="verify is a"):
        kedro_hone.load(signed, verify=verify)


@pytest.mark.attack(
    what="a folder with another model's signed version, for who verifies it with an empty name or key",
    who="registry",
    stopped_by="an empty option is a mistake",
)
@pytest.mark.parametrize(
    "options",
    [("--identity", "", "--issuer", ""), ("--issuer", ""), ("--source", ""), ("--key", ""), ("--name", "")],
)
def test_verify_takes_no_empty_option_for_none(signed, options):
    """Such as ``--identity "$SIGNER"`` where nobody set it: nothing is called right for lack of a question."""
    assert call(signed, *options).exit_code not in {ExitCode.SUCCESS, None}


def test_verify_takes_no_empty_name_with_a_key(signed, keys):
    assert call(signed, "--key", str(keys[1]), "--name", "").exit_code not in {ExitCode.SUCCESS, None}


def test_a_key_of_a_policy_that_is_none_is_named(signed, keys, tmp_path):
    for key in (tmp_path / "none.pem", keys[0], "-----BEGIN nothing"):
        error = catch(lambda key=key: kedro_hone.load(signed, verify=kedro_hone.Policy(keys=(key,))))
        assert error.slug == "signing-unusable"


def test_sigstore_without_an_identity_stops_a_run_before_anything_is_pulled(tmp_path, monkeypatch):
    """As far as this can run without Sigstore: a process that is no job of a CI has no identity of its own."""
    for name in ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "BUILDKITE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(SIGNING_KEY, "sigstore")
    recipe = read_recipe({"model": {"uri": "models:/nowhere/1"}})
    run = RunFolder(root=tmp_path, run_id="1", project=tmp_path)
    *_, error = find_problems(gate=None, recipe=recipe, store=None, run=run)  # the model does not exist either
    assert (error.slug, "finds no identity" in error.why) == ("signing-unusable", True)


def test_a_signature_by_a_key_is_none_of_an_identity(signed):
    policy = kedro_hone.Policy(identity="someone@example.org", issuer="https://accounts.example.org")
    assert "no signature of Sigstore" in refuse(signed, policy)


@pytest.mark.attack(
    what="a process that lacks what checks signatures",
    who="nobody",
    stopped_by="a policy that cannot be checked is refused",
)
def test_a_learner_without_what_checks_signatures_loads_data_and_refuses_a_policy(signed, keys):
    code = f"""
import sys
sys.modules |= dict.fromkeys(("cryptography", "model_signing", "sigstore"))  # as if they were not installed
import kedro_hone
print(kedro_hone.load({str(signed)!r}).artifact.format)
for policy in (dict(keys=({str(keys[1])!r},)), dict(identity="a@b.c", issuer="https://b.c")):
    try:
        kedro_hone.load({str(signed)!r}, verify=kedro_hone.Policy(**policy))
    except Exception as error:
        print(error.slug, "kedro-hone[signing]" in error.hint)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["onnx", *["signing-unusable", "True"] * 2]


def test_signed_files_are_read_once(signed, policy, monkeypatch):
    counted: list[Path] = []
    for place in ("hone_runtime.signing.verify", "hone_runtime.values.manifest"):
        monkeypatch.setattr(f"{place}.digest_file", lambda path: counted.append(path) or digest_file(path))
    kedro_hone.load(signed, verify=policy)
    assert counted.count(signed / "artifact" / "model.onnx") == 1
    assert len(counted) == len(set(counted))


def test_a_run_signs_what_it_publishes_and_pulls_nothing_with_a_key_that_it_cannot_use(unpublished, tmp_path):
    project = copy_project(unpublished, tmp_path)
    private, public = write_keys(tmp_path, "publisher")
    before = project.runs
    project.environment[SIGNING_KEY] = str(tmp_path / "none.pem")
    done = project.run(code=ExitCode.INPUT)
    assert "signing-unusable" in done.output
    assert "pulled " not in done.output
    project.run("--pipelines", "publish", code=ExitCode.INPUT)
    assert not list(project.root.glob("models/*-hone"))
    project.environment[SIGNING_KEY] = str(private)
    project.run("--pipelines", "publish")
    publication = json.loads((project.work / "latest" / "publication.json").read_text())
    assert publication["signer"] == digest_file(public)
    (place,) = project.root.glob("models/*-hone/honed")
    asked = (str(place.relative_to(project.root)), "--key", str(public))
    done = project.call("hone", "verify", *asked)
    assert (done.code, done.output.count(" checked: "), "NOT" in done.output) == (ExitCode.SUCCESS, 4, False)
    change_evidence(place)
    assert project.call("hone", "verify", *asked).code == ExitCode.INPUT
    assert [run for run in project.runs if (run / "steps").exists()] == [
        run for run in before if (run / "steps").exists()
    ]


@pytest.mark.attack(
    what="tags that are added to a download",
    who="registry",
    stopped_by="the file of tags counts in a registry's folder only",
)
def test_tags_in_a_download_are_not_those_of_a_registry(signed, keys, tmp_path):
    download = shutil.copytree(signed, tmp_path / "download")
    done = call(download, "--key", keys[1])
    assert done.exit_code == ExitCode.SUCCESS, done.output
    assert "tags       NOT checked: the registry has none" in done.output


@pytest.mark.attack(
    what="a folder in the current one that is named as a version of a registry",
    who="registry",
    stopped_by="what is written as a URI is asked of its registry",
)
def test_a_folder_named_as_a_version_is_not_the_version(signed, policy, registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("models:").mkdir()
    shutil.copytree(signed, Path("models:", "other@honed"))
    assert catch(lambda: kedro_hone.load("models:/other@honed", verify=policy)).slug == "model-unknown"
    done = call("models:/other@honed", "--key", policy.keys[0])
    assert (done.exit_code, "model-unknown" in done.output) == (ExitCode.INPUT, True)
    assert kedro_hone.load("./models:/other@honed", verify=policy).artifact.format == "onnx"


def test_a_signature_of_what_has_no_name_is_of_no_model():
    from hone_runtime.signing.verify import _check_name

    with pytest.raises(HoneError) as caught:
        _check_name("", "net", whole="net")
    assert caught.value.slug == "signature-invalid"
    assert "Policy(…, name=…)" in caught.value.why
