from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files
from kedro_hone.sources.formats import pytorch_module
from kedro_hone.sources.source_format import AuthorClass, Flavor, Pulled

TRUST = frozenset({"module"})


@pytest.fixture
def pulled(tmp_path):
    folder = tmp_path / "pulled"
    folder.mkdir()
    (folder / "net.pt2").write_bytes(b"state")
    return folder


@pytest.fixture
def author(tmp_path):
    """A class in a package whose ``__init__`` writes a file when it is imported."""
    package = tmp_path / "project" / "src" / "quagga_models"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"open({str(tmp_path / 'was-imported')!r}, 'w').close()\n")
    (package / "net.py").write_text("raise RuntimeError('imported')\nclass Net: ...\n")
    return AuthorClass(place="quagga_models.net:Net", kwargs={"width": 3}, project=tmp_path / "project")


def catch(call):
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def test_the_class_comes_with_the_pulled_state(pulled, author, tmp_path):
    flavor = read_flavor(pulled, trust=TRUST, author=author)
    assert (flavor.source, flavor.format, flavor.interface) == ("pytorch-module", "pytorch-module", "pytorch")

    write_files(flavor, pulled, tmp_path / "files")
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["model.pt2", "module.json", "net.py"]
    assert (tmp_path / "files" / "model.pt2").read_bytes() == b"state"
    assert json.loads((tmp_path / "files" / "module.json").read_text()) == {
        "class": "net:Net",
        "file": "net.py",
        "kwargs": {"width": 3},
        "state": "model.pt2",
    }


def test_neither_the_class_nor_its_package_is_imported(pulled, author, tmp_path):
    read_flavor(pulled, trust=TRUST, author=author)
    assert not (tmp_path / "was-imported").exists()
    assert not [name for name in sys.modules if name.startswith("quagga_models")]


def test_a_class_has_to_be_trusted(pulled, author):
    error = catch(lambda: read_flavor(pulled, trust=frozenset(), author=author))
    assert error.slug == "pickle-not-trusted"
    assert "trust: [module]" in error.hint


@pytest.mark.parametrize("place", ["quagga_models.nte:Net", "no_such_package.net:Net", "models/net.py:Net"])
def test_a_class_that_does_not_exist(pulled, author, place):
    error = catch(
        lambda: read_flavor(pulled, trust=TRUST, author=AuthorClass(place=place, kwargs={}, project=author.project))
    )
    assert error.slug == "recipe-invalid"
    assert place.rpartition(":")[0] in error.what


def test_a_class_that_its_file_does_not_have(pulled, author):
    other = replace(author, place="quagga_models.net:Nte")
    error = catch(lambda: read_flavor(pulled, trust=TRUST, author=other))
    assert (error.slug, error.what) == ("recipe-invalid", "There is no class 'Nte' in 'quagga_models.net'.")
    assert "did you mean 'Net'?" in error.why
    unnamed = replace(author, place="quagga_models.net:")
    assert catch(lambda: read_flavor(pulled, trust=TRUST, author=unnamed)).slug == "recipe-invalid"


@pytest.mark.parametrize(
    "text",
    [
        "from torch.nn import Linear as Net\n",
        "import torch.nn as Net\n",
        "try:\n    class Net: ...\nexcept ImportError:\n    Net = None\n",
        "Net: type = make_class(3)\n",
        "(Net, Other) = make_classes()\n",
        "def Net(width): ...\n",
        "from torch.nn import *\n",
        "globals()['Net'] = make_class(3)\n",
        "def __getattr__(name): ...\n",
        "class Net(:\n",
    ],
)
def test_a_class_that_its_file_may_have_is_left_to_the_worker(pulled, author, text):
    (author.project / "src" / "quagga_models" / "net.py").write_text(text)
    assert read_flavor(pulled, trust=TRUST, author=author).format == "pytorch-module"


def test_a_class_for_a_model_that_takes_none(pulled, author):
    (pulled / "net.pt2").rename(pulled / "model.onnx")
    error = catch(lambda: read_flavor(pulled, trust=TRUST, author=author))
    assert error.slug == "recipe-invalid"
    assert "the model is an ONNX file" in error.why


@pytest.mark.attack(what="a pickle next to a trusted class", who="registry", stopped_by="nothing is unpickled")
@pytest.mark.parametrize("trust", [TRUST, TRUST | {"pickle"}], ids=["module", "module and pickle"])
def test_a_pickle_is_no_state_of_a_class(pulled, author, trust):
    (pulled / "net.pt2").rename(pulled / "net.pth")
    error = catch(lambda: read_flavor(pulled, trust=trust, author=author))
    assert error.slug == "recipe-invalid"
    assert "the model is a pickle" in error.why
    assert "safetensors.torch.save_model(" in error.hint


@pytest.mark.parametrize("name", ["model.safetensors", "towers.safetensors"])
def test_the_state_may_be_bare_weights(pulled, author, tmp_path, name):
    (pulled / "net.pt2").rename(pulled / name)
    (pulled / "config.json").write_text("{}")  # as transformers and other libraries keep next to them
    flavor = read_flavor(pulled, trust=TRUST, author=author)
    assert (flavor.source, flavor.format) == ("pytorch-module", "pytorch-module")

    write_files(flavor, pulled, tmp_path / "files")
    assert (tmp_path / "files" / "model.safetensors").read_bytes() == b"state"
    assert json.loads((tmp_path / "files" / "module.json").read_text())["state"] == "model.safetensors"


@pytest.mark.attack(
    what="files of a published program in the place of the class that the recipe names",
    who="registry",
    stopped_by="of the registry's files only the state is taken",
)
def test_only_the_state_is_taken_of_what_was_published(pulled, author, tmp_path, monkeypatch):
    names = ["a.py", "model.pt2", "net.py/x", "module.json/x", "net.pt2"]
    for name in names[:-1]:
        (pulled / name).parent.mkdir(exist_ok=True)
        (pulled / name).write_bytes(b"hers")
    program = Flavor(format="pytorch", files=tuple((name, name) for name in names))
    monkeypatch.setattr("kedro_hone.sources.formats.published.detect", lambda _: program)

    flavor = pytorch_module.detect(Pulled(folder=pulled, mlmodel=None, author=author, due=None, trust=TRUST, task=None))
    write_files(flavor, pulled, tmp_path / "files")
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["model.pt2", "module.json", "net.py"]
    assert "class Net" in (tmp_path / "files" / "net.py").read_text()
    assert json.loads((tmp_path / "files" / "module.json").read_text())["state"] == "model.pt2"


@pytest.mark.parametrize("names", [["a.safetensors", "b.safetensors"], ["weights.bin"]])
def test_the_state_of_a_class_is_one_file(pulled, author, names):
    (pulled / "net.pt2").unlink()
    for name in names:
        (pulled / name).write_bytes(b"state")
    error = catch(lambda: read_flavor(pulled, trust=TRUST, author=author))
    assert error.slug == "model-unsupported"
    assert "The state of a class is one file" in error.hint


def test_bare_weights_need_a_class(pulled):
    (pulled / "net.pt2").rename(pulled / "model.safetensors")
    error = catch(lambda: read_flavor(pulled, trust=TRUST))
    assert error.slug == "model-unsupported"
    assert "name that in hone.model.module" in error.hint


def test_an_adapter_is_no_state_of_a_class(tmp_path, author):
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (folder / "adapter_model.safetensors").write_bytes(b"state")
    error = catch(lambda: read_flavor(folder, trust=TRUST, author=author))
    assert error.slug == "model-unsupported"
    assert "merge_and_unload" in error.hint
