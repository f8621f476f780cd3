"""What a toolchain's ``capabilities.yml`` says it takes decides before anything is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from toolchains.toy import adaptor as toy

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.host import Host
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from kedro_hone.recipe.capabilities import (
    MOST_OPERATORS,
    find_limit,
    find_versions_to_write,
    read_file,
    read_takes,
    require_known_adaptors,
)

HOST = Host(flags=frozenset({"avx2"}), cores=1, gpu=None, compilers=frozenset(), fingerprint="f", machine="x86_64")
MODEL = {"opset": 21, "ir_version": 10, "domains": ["ai.onnx"], "operators": ["Conv", "Relu"]}


def make_artifact(**known):
    return Artifact(format="toy-source", digest="sha256:0", inputs=(), outputs=(), metadata={**MODEL, **known})


@pytest.fixture
def refuse(tmp_path):
    """Return what is refused of an artifact, by what a file says."""

    def call(says, artifact=None, versions=None):
        text = says if isinstance(says, str | bytes) else yaml.safe_dump(says)
        (tmp_path / "capabilities.yml").write_bytes(text.encode() if isinstance(text, str) else text)
        read_file.cache_clear()
        adaptor = replace(toy.COMPILE, toolchain=replace(toy.TOOLCHAIN, folder=tmp_path))
        return find_limit(adaptor, artifact or make_artifact(), HOST, find_versions=lambda: versions or {})

    yield call
    read_file.cache_clear()


def says(**takes):
    return {"versions": [{"version": ">=1", "takes": takes}]}


LIMITS = [
    ({"opsets": [13, 19]}, {}, "opset", "takes ONNX's opsets 13 to 19, and the model has 21"),
    ({"opsets": [22, None]}, {}, "opset", "takes ONNX's opsets from 22 on, and the model has 21"),
    ({"ir": 9}, {}, "ir", "takes ONNX's file format up to version 9, and the model has 10"),
    (
        {"domains": ["ai.onnx"]},
        {"domains": ["ai.onnx", "com.microsoft"]},
        "operator",
        "takes operators of ai.onnx, the model has some of com.microsoft",
    ),
    ({"without": ["Relu", "Loop"]}, {}, "operator", "does not take Relu, which the model has"),
    (
        {"unless_quantized": "prune first"},
        {"quantization": "int8"},
        "quantized",
        "the model is quantized (int8): prune first",
    ),
    ({"any_of": ["MatMul", "Gemm"]}, {}, "operator", "works on MatMul, Gemm, and the model has none of them"),
    ({"where": "VNNI"}, {}, "host", "needs a CPU with VNNI, and this one has AVX2 only"),
]


@pytest.mark.parametrize(("takes", "known", "slug", "reason"), LIMITS)
def test_a_refusal_names_the_limit_and_what_the_model_has(refuse, takes, known, slug, reason):
    refused = refuse(says(**takes), make_artifact(**known))

    assert refused is not None
    assert (refused.by, refused.slug, refused.reason) == ("toy.compile", slug, reason)


@pytest.mark.parametrize(
    "takes",
    [
        {
            "opsets": [13, 21],
            "ir": 10,
            "domains": ["ai.onnx"],
            "without": ["Loop"],
            "any_of": ["Conv"],
            "where": "AVX2",
        },
        {"opsets": [13, None]},
    ],
)
def test_what_is_within_the_limits_is_taken(refuse, takes):
    assert refuse(says(**takes)) is None


@pytest.mark.parametrize(
    "known",
    [
        dict.fromkeys(MODEL),
        {"opset": "21", "ir_version": [], "domains": "x", "operators": 5},
        {"opset": {}, "ir_version": None, "domains": [{}], "operators": [None, []]},
    ],
)
def test_nothing_is_concluded_from_what_is_not_known_or_no_description(refuse, known):
    takes = {"opsets": [99, None], "ir": 1, "domains": ["none"], "without": ["Relu"], "any_of": ["MatMul"]}
    assert refuse(says(**takes), make_artifact(**known)) is None


def test_a_list_of_operators_that_may_be_cut_lacks_nothing(refuse):
    many = [f"Op{number:02d}" for number in range(MOST_OPERATORS)]

    assert refuse(says(any_of=["MatMul"]), make_artifact(operators=many)) is None
    assert refuse(says(any_of=["MatMul"]), make_artifact(operators=many[1:])) is not None


def test_what_is_said_of_one_adaptor_holds_for_it_alone(refuse):
    of_another = {"versions": [{"version": ">=1", "adaptors": {"toy.compress": {"takes": {"ir": 1}}}}]}
    of_this = {"versions": [{"version": ">=1", "adaptors": {"toy.compile": {"takes": {"ir": 1}}}}]}

    assert refuse(of_another) is None
    assert refuse(of_this) is not None


@pytest.mark.parametrize(("version", "refused"), [("1.4", True), ("2.0", False), ("3.0", False), (None, False)])
def test_the_row_of_the_installed_version_decides(refuse, version, refused):
    rows = [{"version": ">=1,<2", "takes": {"ir": 9}}, {"version": ">=2,<3", "takes": {"ir": 10}}]
    found = refuse({"package": "toy", "versions": rows}, versions={"toy": version} if version else {})

    assert (found is not None) is refused


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("versions: [{version: '1', takes: {opset: 3}}]", "opset"),
        ("versions: [{version: '1', takes: {where: VNII}}]", "VNII"),
        ("versions: 7", "TypeError"),
        ("[versions]", "TypeError"),
        ("versions: [takes]", "AttributeError"),
        ("versions: [{version: '1', adaptors: {toy.compile: [takes]}}]", "TypeError"),
        ("a: [", "ParserError"),
        ("a: " + "[" * 5000, "RecursionError"),
        ("versions: [{version: '1'}, {version: '2'}]", "package"),
        (b"versions: []  # caf\xe9", "UnicodeDecodeError"),
    ],
)
def test_a_file_that_says_something_else_is_an_error(refuse, text, words):
    with pytest.raises(HoneError, match="capabilities-invalid") as caught:
        refuse(text)

    assert words in caught.value.why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("versions: [{version: '1', ~: 1, takes: {ir: 1}}]", "versions.0.None: unknown key"),
        ("version: [{version: '1'}]", "version: unknown key, did you mean 'versions'?"),
        ("versions: [{version: '1', take: {ir: 1}}]", "versions.0.take: unknown key, did you mean 'takes'?"),
        (
            "versions: [{version: '1', takes: {opset: 3}}]",
            "versions.0.takes.opset: unknown key, did you mean 'opsets'?",
        ),
        ("versions: [{version: '1', 7: 8}]", "versions.0.7: unknown key"),
        (
            "versions: [{version: '1', adaptors: {toy.compile: {tekes: {ir: 1}}}}]",
            "versions.0.adaptors.toy.compile.tekes: unknown key, did you mean 'takes'?",
        ),
        (
            "versions: [{version: '1', adaptors: {toy.compile: {takes: {irr: 1}}}}]",
            "versions.0.adaptors.toy.compile.takes.irr: unknown key, did you mean 'ir'?",
        ),
    ],
)
def test_an_unknown_key_is_named(refuse, text, why):
    with pytest.raises(HoneError, match="capabilities-invalid") as caught:
        refuse(text)

    assert caught.value.why.endswith(f"capabilities.yml: {why}")


def test_what_an_option_can_be_stands_under_its_name(refuse):
    options = {name: [1] for name in toy.COMPILE.options.model_fields}
    assert options
    assert refuse({"versions": [{"version": "1", "adaptors": {"toy.compile": options}}]}) is None


def test_a_misspelt_adaptor_is_named(tmp_path):
    (tmp_path / "capabilities.yml").write_text("versions: [{version: '1', adaptors: {toy.compil: {takes: {ir: 1}}}}]")
    toolchain = replace(toy.TOOLCHAIN, folder=tmp_path)
    with pytest.raises(HoneError) as caught:
        require_known_adaptors(toolchain, ["toy.compile"])

    assert caught.value.slug == "capabilities-invalid"
    assert "versions.0.adaptors.toy.compil: unknown key, did you mean 'toy.compile'?" in caught.value.why
    require_known_adaptors(toolchain, ["toy.compil", "toy.other"])


@pytest.mark.parametrize("name", sorted(read_catalogue().toolchains))
def test_each_adaptor_that_is_written_down_is_registered(name):
    catalogue = read_catalogue()
    rows = read_file(catalogue.find_toolchain(name).folder / "capabilities.yml").get("versions", ())
    written = {each for row in rows for each in row.get("adaptors") or {}}
    assert written <= {each.name for each in catalogue.adaptors.values() if each.toolchain.name == name}


def test_which_adaptors_do_not_take_what_is_quantized():
    program = make_artifact(quantization="pytorch.pt2e-int8")
    refusals = (find_limit(each, program, HOST, find_versions=dict) for each in read_catalogue().adaptors.values())

    assert {refusal.by for refusal in refusals if refusal and refusal.slug == "quantized"} == {
        *("executorch.xnnpack", "executorch.xnnpack-int8", "litert_torch.tflite", "torch_tensorrt.engine"),
        *("compress.replace-layers", "compress.prune-channels", "compress.drop-layers", "compress.low-rank"),
        *("compress.sparsify", "compress.distil", "compress.qat"),
        *("litert.int8-dynamic", "litert.int8-static", "litert.int8-weights"),
        *("pytorch.aoti-bf16", "pytorch.pt2e-int8", "pytorch.torchscript", "pytorch.trace"),
        *("neural_compressor_pt.int8-static", "sparseml.prune", "sparseml.tune"),
        *("onnxruntime.int8-tuned", "openvino.int8-tuned"),
    }


@pytest.mark.parametrize("name", sorted(read_catalogue().adaptors))
def test_what_is_written_down_agrees_with_the_adaptors_description(name):
    adaptor = read_catalogue().adaptors[name]
    path: Path = adaptor.toolchain.folder / "capabilities.yml"
    read_takes(adaptor, find_versions=dict)
    for row in read_file(path)["versions"]:
        assert adaptor.precisions <= {*row["precisions"]}
        assert adaptor.accepts <= {*row["formats"].get("accepts", ()), *row["formats"].get("runs", ())}
        assert adaptor.toolchain.runs == {*row["formats"].get("runs", ())}
        of_it = row.get("adaptors", {}).get(name, {})
        assert {*of_it.get("precisions", adaptor.precisions)} >= adaptor.precisions
        for option in {"opset", "opsets"} & of_it.keys():
            bounds = adaptor.options.model_json_schema()["properties"]["opset"]
            assert [*range(bounds["minimum"], bounds["maximum"] + 1)] == of_it[option]


def test_versions_that_a_worker_writes_refuse_nothing(refuse, tmp_path):
    limits = {"opsets": [13, 19], "ir": 9, "domains": ["ai.onnx"], "converts": True}
    assert refuse(says(**limits)) is None
    assert refuse(says(**limits), make_artifact(domains=["com.shop"])).slug == "operator"
    adaptor = replace(toy.COMPILE, toolchain=replace(toy.TOOLCHAIN, folder=tmp_path))
    assert find_versions_to_write(adaptor, find_versions=dict) == {"opsets": [13, 19], "ir": 9}


def test_a_worker_is_told_no_versions_where_it_writes_none(refuse, tmp_path):
    refuse(says(opsets=[13, 19]))
    adaptor = replace(toy.COMPILE, toolchain=replace(toy.TOOLCHAIN, folder=tmp_path))
    assert find_versions_to_write(adaptor, find_versions=dict) is None
