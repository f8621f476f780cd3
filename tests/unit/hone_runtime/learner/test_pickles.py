# ruff: noqa: S301 - what is unpickled was pickled here

from __future__ import annotations

import copy
import importlib.util
import io
import pickle
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec

import kedro_hone
from hone_runtime.errors import HoneError
from hone_runtime.learner import Learner
from hone_runtime.learner.pickles import Origin
from hone_runtime.signing.sign import SIGNING_KEY, find_signer, sign_version

_SPEC = importlib.util.spec_from_file_location("hone_test_toy", Path(__file__).with_name("toy.py"))
toy = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(toy)


@pytest.fixture
def folder(tmp_path, install):
    install(replace(toy.make_toolchain(tmp_path / "toolchain"), survives_fork=True))
    toy.make_model(tmp_path / "winner")
    return tmp_path / "winner"


def test_a_pickle_opens_the_same_winner_elsewhere(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    learner = kedro_hone.load("winner", threads=3)
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(learner))
    x, y = toy.predict(4)
    np.testing.assert_array_equal(again(x), y)
    assert again.artifact == learner.artifact
    assert again._session.job["threads"] == 3
    assert pickle.loads(pickle.dumps(again)).origin == learner.origin


def test_it_holds_no_file_and_joblib_takes_it(folder, tmp_path):
    learner = kedro_hone.load(folder)
    assert len(pickle.dumps(learner)) < 1000
    joblib.dump(learner, tmp_path / "learner.joblib")
    x, y = toy.predict(2)
    np.testing.assert_array_equal(joblib.load(tmp_path / "learner.joblib")(x), y)


def test_another_winner_in_the_same_place_is_refused(folder, tmp_path):
    learner = kedro_hone.load(folder)
    said, wanted = pickle.dumps(learner), learner.artifact.digest
    folder.rename(tmp_path / "old")
    other, _ = toy.make_model(folder, note="another")
    with pytest.raises(HoneError) as caught:
        pickle.loads(said)
    assert caught.value.slug == "model-corrupt"
    assert caught.value.what == f"{folder} is not the winner that was loaded where this was pickled."
    assert caught.value.why == f"Its digest is {other.digest}, and {wanted} was loaded."


def test_a_file_that_was_changed_meanwhile_is_refused(folder):
    said = pickle.dumps(kedro_hone.load(folder))
    np.save(folder / "weights.npy", np.ones((4, 3), np.float32))
    with pytest.raises(HoneError) as caught:
        pickle.loads(said)
    assert caught.value.slug == "model-corrupt"
    assert "weights.npy" in caught.value.why


def test_what_is_code_is_not_pickled(tmp_path, install):
    install(replace(toy.make_toolchain(tmp_path / "toolchain"), data=frozenset()))
    toy.make_model(tmp_path / "winner")
    learner = kedro_hone.load(tmp_path / "winner", trust=["native"])
    with pytest.raises(TypeError, match="it is code"):
        pickle.dumps(learner)


@pytest.fixture
def signed_code(tmp_path, install) -> tuple[Path, str, str]:
    """A version of a winner that is code, signed: its folder, its digest and the public key."""
    install(replace(toy.make_toolchain(tmp_path / "toolchain"), data=frozenset()))
    folder = tmp_path / "winner"
    artifact = toy.make_artifact(folder / "artifact")
    private = ec.generate_private_key(ec.SECP256R1())
    key = tmp_path / "key.pem"
    key.write_bytes(private.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()))
    signer = find_signer({SIGNING_KEY: str(key)})
    sign_version(folder, signer, name="winner")
    return folder, artifact.digest, signer.public


@pytest.mark.attack(
    what="a current folder with another key under the name that the policy of a pickled learner has",
    who="data",
    stopped_by="the files of a policy's keys are absolute paths in a pickle",
)
def test_the_key_of_a_policy_is_the_same_file_elsewhere(tmp_path, install, monkeypatch):
    monkeypatch.chdir(tmp_path)
    install(toy.make_toolchain(tmp_path / "toolchain"))
    folder = tmp_path / "winner"
    toy.make_artifact(folder / "artifact")
    private = ec.generate_private_key(ec.SECP256R1())
    encoding = pem.Encoding.PEM
    (tmp_path / "key.pem").write_bytes(private.private_bytes(encoding, pem.PrivateFormat.PKCS8, pem.NoEncryption()))
    signer = find_signer({SIGNING_KEY: str(tmp_path / "key.pem")})
    (tmp_path / "publisher.pem").write_text(signer.public)
    sign_version(folder, signer, name="winner")
    learner = kedro_hone.load(folder, verify=kedro_hone.Policy(keys=("publisher.pem", signer.public)))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pickle.loads(pickle.dumps(learner)).origin.verify.keys == (str(tmp_path / "publisher.pem"), signer.public)


@pytest.mark.attack(
    what="a pickle of a learner says that code may be run, by whose signature it likes",
    who="data",
    stopped_by="nothing is trusted where a learner is unpickled, and no signature vouches for code",
)
@pytest.mark.parametrize("signed", [False, True])
def test_no_pickle_says_what_is_trusted(signed_code, signed):
    """A pickle that somebody wrote opens no code, whatever it says: not even with a key that signed it."""
    folder, digest, key = signed_code
    kedro_hone.load(folder, verify=kedro_hone.Policy(keys=(key,)))  # the signature itself is good
    origin = Origin(uri=str(folder), digest=digest, verify={"keys": [key]} if signed else None)

    class Crafted:
        def __reduce__(self):
            from hone_runtime.learner.loader import reopen

            return reopen, (origin.model_dump(mode="json") | {"code": False},)

    said = pickle.dumps(Crafted())

    class Restricted(pickle.Unpickler):
        def find_class(self, module, name):
            assert module.startswith("hone_runtime.")
            return super().find_class(module, name)

    with pytest.raises(HoneError) as caught:
        Restricted(io.BytesIO(said)).load()
    assert caught.value.slug == "native-not-trusted"


def test_what_says_more_than_an_origin_is_refused(folder):
    from hone_runtime.learner.loader import reopen

    with pytest.raises(ValueError, match="trust"):
        reopen({"uri": str(folder), "digest": "sha256:1", "trust": ["native"]})
    with pytest.raises(ValueError, match="does not identify a winner"):
        reopen({"uri": str(folder)})


def test_a_learner_that_was_made_by_hand_is_not_pickled(tmp_path, install):
    install(toy.make_toolchain(tmp_path / "toolchain"))
    with pytest.raises(TypeError, match=r"kedro_hone\.load"):
        pickle.dumps(Learner(*toy.make_model(tmp_path / "winner")))


def test_a_copy_is_the_learner_itself(folder):
    learner = kedro_hone.load(folder)
    assert copy.deepcopy({"model": learner})["model"] is learner
    assert copy.copy(learner) is learner
