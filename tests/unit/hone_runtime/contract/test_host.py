"""What a CPU's flags mean, on hosts of both kinds, whatever machine the tests run on."""

from __future__ import annotations

import pytest

from hone_runtime.contract.adaptor import Int8Options, Options
from hone_runtime.contract.catalogue import list_builtin, read_catalogue
from hone_runtime.contract.host import Host
from hone_runtime.values.artifact import Artifact
from kedro_hone.core.store.steps import list_machine_options, step_key

HASWELL = "sse4_2 avx avx2 fma"
SKYLAKE_X = f"{HASWELL} avx512f avx512bw avx512vl"
CASCADE_LAKE = f"{SKYLAKE_X} avx512_vnni"
ZEN_5 = f"{CASCADE_LAKE} avx_vnni avx512_bf16"
SAPPHIRE_RAPIDS = f"{ZEN_5} avx512_fp16 amx_tile amx_int8 amx_bf16"
ALDER_LAKE = f"{HASWELL} avx_vnni"
CORTEX_A72 = "fp asimd evtstrm aes crc32"
GRAVITON_2 = f"{CORTEX_A72} asimdhp asimddp"
GRAVITON_4 = f"{GRAVITON_2} sve sve2 i8mm bf16"

TUNED = {"onnxruntime.int8-tuned", "openvino.int8-tuned"}
"""Their results depend on measured times, so that the key has the whole machine."""
QUANTIZERS = frozenset(
    {
        "compress.qat",
        "neural_compressor.int8-smooth",
        "neural_compressor.int8-static",
        "neural_compressor_pt.int8-static",
        "onnxruntime.int8-dynamic",
        "onnxruntime.int8-fused",
        "onnxruntime.int8-static",
        "onnxruntime.int8-tuned",
        "openvino.int8-ptq",
        "openvino.int8-accuracy-control",
        "openvino.int8-tuned",
        "pytorch.pt2e-int8",
    }
)
"""All whose int8 products may saturate; the others quantize weights only, and compute in floats."""


def make_host(flags: str, machine: str = "x86_64") -> Host:
    names = frozenset(flags.split())
    return Host(flags=names, cores=2, gpu=None, compilers=frozenset(), fingerprint="", machine=machine)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("fpu sse4_2", "SSE4.2 only"),
        ("avx sse4_2", "AVX only"),
        (HASWELL, "AVX2 only"),
        (ALDER_LAKE, "AVX2, VNNI"),
        (SKYLAKE_X, "AVX-512 only"),
        (CASCADE_LAKE, "AVX-512, VNNI"),
        (ZEN_5, "AVX-512, VNNI, BF16"),
        (SAPPHIRE_RAPIDS, "AVX-512, VNNI, BF16, FP16, AMX"),
        ("half thumb neon vfpv4", "NEON only"),
        (CORTEX_A72, "NEON only"),
        (GRAVITON_2, "NEON, dot product, FP16"),
        (GRAVITON_4, "NEON, SVE, SVE2, dot product, I8MM, BF16, FP16"),
        ("fpu", "unknown"),
        ("", "unknown"),
    ],
)
def test_instructions_have_the_names_that_people_use(flags, names):
    assert make_host(flags).instructions == names


@pytest.mark.parametrize(
    ("flags", "machine", "saturates"),
    [
        (HASWELL, "x86_64", True),
        (SKYLAKE_X, "x86_64", True),
        ("", "x86_64", True),
        (ALDER_LAKE, "x86_64", False),
        (CASCADE_LAKE, "x86_64", False),
        (SAPPHIRE_RAPIDS, "AMD64", False),
        (CORTEX_A72, "aarch64", False),
        (GRAVITON_2, "aarch64", False),
        ("", "arm64", False),
    ],
)
def test_products_saturate_on_x86_without_vnni(flags, machine, saturates):
    host = make_host(flags, machine)
    assert host.saturates_int8 is saturates
    assert Int8Options().resolve(host).reduce_range is saturates


@pytest.mark.parametrize("reduce_range", [True, False])
@pytest.mark.parametrize("flags", [HASWELL, ZEN_5])
def test_a_recipe_decides_for_itself(flags, reduce_range):
    options = Int8Options(reduce_range=reduce_range)
    assert options.resolve(make_host(flags)) == options


def test_options_that_leave_nothing_to_the_machine_stay():
    assert Options().resolve(make_host(HASWELL)) == Options()


def test_every_quantizer_with_integer_products_asks_the_host():
    adaptors = [a for a in read_catalogue().adaptors.values() if a.toolchain.name in list_builtin()]
    old, new = make_host(HASWELL), make_host(ZEN_5)
    assert {a.name for a in adaptors if a.options().resolve(old) != a.options().resolve(new)} == QUANTIZERS
    for adaptor in adaptors:
        options = adaptor.options().resolve(old)
        expected = {"reduce_range": True} if adaptor.name in QUANTIZERS else {}
        if adaptor.name in {"onnxruntime.int8-static", "onnxruntime.int8-tuned"}:
            expected |= {"activations": "uint8"}
        assert list_machine_options(adaptor, options, old) == list_machine_options(adaptor, options, new) == expected


@pytest.mark.parametrize("name", sorted(QUANTIZERS - TUNED))
def test_a_store_keeps_the_two_kinds_of_hosts_apart(name):
    adaptor = read_catalogue().find_adaptor(name)
    artifact = Artifact(format=min(adaptor.accepts), digest="sha256:00", inputs=(), outputs=())

    def make_key(host: Host, **given: bool) -> str:
        options = adaptor.options(**given).resolve(host)
        return step_key(adaptor, artifact, options, worker="w", environment="e", host=host, seed=0)[0]

    old, new = make_host(HASWELL), make_host(ZEN_5)
    assert make_key(old) != make_key(new)
    assert make_key(old) == make_key(make_host(SKYLAKE_X)) == make_key(new, reduce_range=True)
    assert make_key(new) == make_key(old, reduce_range=False)
