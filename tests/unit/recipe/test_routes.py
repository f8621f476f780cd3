"""Which routes are generated, over adaptors that are made up so that each test shows all there is to fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Stage
from kedro_hone.recipe.plan import SOURCE, generate_routes

FORMATS = frozenset({"onnx", "pytorch", "module", "script", "ir", "engine"})


def make(name: str, accepts: str, produces: str, stage: Stage) -> Adaptor:
    toolchain = Toolchain(name=name.partition(".")[0], folder=Path("nowhere"), runs=FORMATS)
    return Adaptor(
        name=name,
        version=1,
        toolchain=toolchain,
        stage=stage,
        accepts=frozenset(accepts.split("|")),
        produces=produces,
        summary="Derived up.",
    )


def convert(name, accepts, produces):
    return make(name, accepts, produces, Stage.CONVERT)


def compress(name, accepts, produces=None):
    return make(name, accepts, produces or accepts, Stage.COMPRESS)


def compile_(name, accepts, produces=None):
    return make(name, accepts, produces or accepts, Stage.COMPILE)


EXPORT = convert("torch.export", "module", "pytorch")
TO_ONNX = convert("torch.onnx", "pytorch", "onnx")
PT2E = compress("torch.pt2e", "pytorch")
TRACE = compile_("torch.trace", "module|pytorch", "script")
INT8 = compress("ort.int8", "onnx")
INT4 = compress("ort.int4", "onnx")
SESSION = compile_("ort.session", "onnx")
TO_IR = convert("ov.ir", "onnx", "ir")
PTQ = compress("ov.ptq", "ir")
F32 = compile_("ov.f32", "ir")
ALL = (EXPORT, TO_ONNX, PT2E, TRACE, INT8, INT4, SESSION, TO_IR, PTQ, F32)


def names(adaptors, *, chains=(), ends=False):
    routes = generate_routes(adaptors, chains=chains)
    return [step.namespace for step in (routes.ends if ends else routes.steps)]


def test_a_compiler_hangs_below_its_backend():
    assert names([SESSION]) == ["onnx.ort_session"]


def test_a_compressor_comes_by_itself_and_is_compiled():
    assert names([INT8, SESSION]) == ["onnx.ort_int8", "onnx.ort_int8.ort_session", "onnx.ort_session"]


def test_a_prefix_is_shared_and_a_parent_comes_before_its_children():
    found = generate_routes([TO_IR, PTQ, F32]).steps

    assert [step.namespace for step in found].count("onnx.ov_ir") == 1
    seen = {"onnx"}
    for step in found:
        assert step.parent in seen
        seen.add(step.namespace)


def test_a_step_knows_its_route_and_whether_it_ends_there():
    steps = {step.namespace: step for step in generate_routes([TO_IR, PTQ, F32]).steps}

    assert steps["onnx.ov_ir.ov_ptq.ov_f32"].route == ("ov.ir", "ov.ptq", "ov.f32")
    assert steps["onnx.ov_ir.ov_ptq.ov_f32"].ends
    assert not steps["onnx.ov_ir.ov_ptq"].ends


def test_a_convert_may_follow_a_compressor():
    assert "onnx.ort_int8.ov_ir.ov_f32" in names([INT8, TO_IR, F32], ends=True)


def test_a_compressed_model_may_change_the_backend():
    assert names([PT2E, TO_ONNX, SESSION], ends=True) == [
        "pytorch.torch_pt2e.torch_onnx.ort_session",
        "onnx.ort_session",
    ]


def test_compressors_do_not_chain_by_themselves():
    assert not [name for name in names(ALL) if sum(part in name for part in ("pt2e", "int8", "int4", "ptq")) > 1]


@pytest.mark.parametrize(
    "adaptors",
    [
        [INT8],  # nothing compiles it
        [TO_IR, PTQ],  # nothing compiles the IR
        [EXPORT],
    ],
    ids=lambda adaptors: "+".join(adaptor.name for adaptor in adaptors),
)
def test_what_leads_to_no_runtime_is_not_generated(adaptors):
    assert names(adaptors) == []


def test_what_nothing_leads_to_can_only_be_the_source():
    assert names([INT8, SESSION, PTQ, F32]) == ["source.ov_f32", *names([INT8, SESSION])]


def test_a_dead_end_next_to_a_route_is_cut_off():
    assert names([INT8, SESSION, TO_IR, PTQ]) == names([INT8, SESSION])


def test_every_step_takes_the_format_that_its_parent_leaves():
    routes = generate_routes(ALL, chains=[("ort.int8", "ov.ir", "ov.ptq")])
    left = {backend: backend for backend in routes.backends} | {step.namespace: step.adaptor for step in routes.steps}

    for step in routes.steps:
        if step.parent == SOURCE:
            continue
        parent = left[step.parent]
        assert (parent if isinstance(parent, str) else parent.produces) in step.adaptor.accepts


def test_only_compilers_take_the_source_as_it_came():
    below = [name for name in names(ALL) if name.startswith(SOURCE)]

    assert below == ["source.torch_trace"]


def test_what_somebody_makes_is_no_format_of_a_source():
    assert not [name for name in names([TO_IR, F32]) if name.startswith(SOURCE)]


def test_two_source_formats_of_one_compiler_are_one_step():
    assert names([compile_("torch.run", "module|weights", "script")]) == ["source.torch_run"]


def test_a_compiler_that_keeps_the_format_still_takes_the_source():
    assert names([compile_("torch.run", "module")]) == ["source.torch_run"]


def test_a_convert_never_goes_back():
    back = convert("ov.back", "ir", "onnx")

    assert "onnx.ov_ir.ov_back" not in names([TO_IR, back, INT8, SESSION, F32])
    assert "onnx.ort_int8.ov_ir.ov_back" not in names([TO_IR, back, INT8, SESSION, F32])


def test_backends_are_those_in_use_and_those_that_they_are_made_from():
    assert generate_routes([SESSION]).backends == ("onnx",)
    assert generate_routes([SESSION, TO_ONNX]).backends == ("pytorch", "onnx")
    assert generate_routes([EXPORT, TRACE]).backends == ("pytorch",)
    assert generate_routes([]).backends == ()


def test_converters_are_listed_by_backend():
    converters = generate_routes(ALL).converters

    assert converters["onnx"] == (TO_ONNX,)
    assert converters["pytorch"] == (EXPORT,)
    assert converters["tensorflow"] == ()


def test_a_chain_is_added_with_every_end_that_fits():
    bf16 = compile_("ov.bf16", "ir")
    adaptors = (*ALL, bf16)

    added = [name for name in names(adaptors, chains=[("ort.int8", "ov.ir", "ov.ptq")]) if name not in names(adaptors)]

    assert added == [
        "onnx.ort_int8.ov_ir.ov_ptq",
        "onnx.ort_int8.ov_ir.ov_ptq.ov_f32",
        "onnx.ort_int8.ov_ir.ov_ptq.ov_bf16",
    ]


def test_a_chain_of_three_compressors():
    added = set(names(ALL, chains=[("ort.int8", "ort.int4", "ov.ir", "ov.ptq")], ends=True)) - set(
        names(ALL, ends=True)
    )

    assert "onnx.ort_int8.ort_int4.ov_ir.ov_ptq.ov_f32" in added
    assert "onnx.ort_int4.ort_int8.ort_session" not in added


def test_a_chain_may_begin_with_a_convert():
    chain = ("ov.ir", "ov.ptq", "ov.fold")
    adaptors = (*ALL, compress("ov.fold", "ir"))

    assert "onnx.ov_ir.ov_ptq.ov_fold.ov_f32" in names(adaptors, chains=[chain], ends=True)


@pytest.mark.parametrize("first", [("torch.onnx",), ("torch.export", "torch.onnx")])
def test_the_way_to_the_backend_may_be_named(first):
    chain = ("ort.int8", "ov.ir", "ov.ptq")

    assert names(ALL, chains=[(*first, *chain)]) == names(ALL, chains=[chain])


def test_a_chain_may_cross_from_one_backend_to_another():
    assert "pytorch.torch_pt2e.torch_onnx.ort_int4.ort_session" in names(
        ALL, chains=[("torch.pt2e", "torch.onnx", "ort.int4")], ends=True
    )


def test_chains_may_come_from_a_generator_and_share_a_prefix():
    chains = [("ort.int8", "ov.ir", "ov.ptq"), ("ort.int8", "ort.int4")]

    found = names(ALL, chains=iter(chains))

    assert found == names(ALL, chains=chains)
    assert {"onnx.ort_int8.ov_ir.ov_ptq", "onnx.ort_int8.ort_int4"} <= set(found)


def test_no_namespace_comes_twice_whatever_is_named_twice():
    chain = ("ort.int8", "ov.ir", "ov.ptq")
    found = names(ALL, chains=[chain, chain, chain[:2], ("ort.int8",)])

    assert len(found) == len(set(found))
    assert found == names(ALL, chains=[chain])


@pytest.mark.parametrize(
    ("chain", "adaptors", "why"),
    [
        (("ov.ptq", "ort.int8"), ALL, "does not take the format"),
        (("torch.pt2e", "ort.int4"), ALL, "does not take the format"),
        (("ort.int8", "ov.ir", "ov.ptq"), (INT8, TO_IR, PTQ, SESSION), "nothing runs its end"),
        (("ort.int8", "ov.ir", "ov.ptq"), (INT8, SESSION), "ov.ir, ov.ptq is not used"),
    ],
)
def test_a_chain_that_is_no_route_is_an_error_of_the_recipe(chain, adaptors, why):
    with pytest.raises(HoneError) as caught:
        generate_routes(adaptors, chains=[chain])

    assert caught.value.slug == "recipe-invalid"
    assert why in str(caught.value)


def test_the_same_adaptors_give_the_same_routes():
    assert generate_routes(ALL) == generate_routes(ALL)


def test_a_real_toolchain_gives_a_route_for_each_of_its_adaptors():
    catalogue = read_catalogue({"onnxruntime": "kedro_hone.adaptors.onnxruntime.adaptor"})

    assert names(tuple(catalogue.adaptors.values()), ends=True) == [
        "onnx.onnxruntime_session",
        "onnx.onnxruntime_fused.onnxruntime_session",
        "onnx.onnxruntime_int8_dynamic.onnxruntime_session",
        "onnx.onnxruntime_int8_fused.onnxruntime_session",
        "onnx.onnxruntime_int8_static.onnxruntime_session",
        "onnx.onnxruntime_int8_tuned.onnxruntime_session",
        "onnx.onnxruntime_int4_weights.onnxruntime_session",
    ]
