import io
from pathlib import Path

import pytest
from controls import CONTROLS, find_controls
from rich.console import Console
from sample import make_evidence, make_publication, spoil

from hone_runtime.values.decision import Verdict
from kedro_hone.report.console import print_verdict


def capture(evidence, *, width=100, folder=Path("run"), **arguments):
    stream = io.StringIO()
    print_verdict(evidence, Console(file=stream, width=width), folder=folder, **arguments)
    return stream.getvalue()


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("width", [60, 100, 160])
def test_the_verdict_is_printed_at_any_width(verdict, width):
    text = capture(make_evidence(verdict), width=width)
    assert verdict.value in text.splitlines()[0]
    assert "\x1b" not in text


def test_it_says_where_the_report_is_and_how_to_call_the_winner():
    folder = Path("data/hone/runs") / ("a-long-name" * 10)
    text = capture(make_evidence(), folder=folder, publication=make_publication())
    assert f"{folder}/report.html" in text
    assert "Published: models:/digits@honed, with the alias honed\n" in text
    code = text.split("\n\n")[-1].strip().splitlines()
    assert code[1] == 'model = kedro_hone.load("models:/digits@honed")'
    assert len(code) == 3


@pytest.mark.parametrize("form", ["aot-inductor", "torchscript", "iree-vmfb", "pytorch"])
def test_how_a_native_winner_is_called_says_that_it_has_to_be_trusted(form):
    evidence = make_evidence()
    native = evidence.model_copy(update={"winner": evidence.winner.model_copy(update={"format": form})})
    text = capture(native, width=160, publication=make_publication())
    assert 'kedro_hone.load("models:/digits@honed", trust=["native"])' in text


@pytest.mark.parametrize(
    ("interface", "call"),
    [
        ("pytorch", "outputs = model(*inputs)"),
        ("transformers", "outputs = model(**inputs)"),
        ("sklearn", "predictions = model.predict(rows)"),
        ("keras", "outputs = model.predict(inputs)"),
        ("", "outputs = model(*inputs)"),  # evidence of an earlier version
    ],
)
def test_the_winner_is_called_as_its_interface_is(interface, call):
    evidence = make_evidence()
    winner = evidence.winner.model_copy(update={"interface": interface})
    assert call in capture(evidence.model_copy(update={"winner": winner}), width=160)


@pytest.mark.parametrize(
    ("signer", "policy"),
    [("sha256:1e98", 'Policy(keys=["publisher.pem"])'), ("sigstore", 'Policy(identity="…", issuer="…")')],
)
@pytest.mark.parametrize("form", ["onnx", "aot-inductor"])
def test_how_a_signed_winner_is_called_asks_for_the_signature_and_not_for_trust(form, signer, policy):
    evidence = make_evidence()
    winner = evidence.model_copy(update={"winner": evidence.winner.model_copy(update={"format": form})})
    publication = make_publication().model_copy(update={"signer": signer})
    text = capture(winner, width=160, publication=publication)
    assert f"with the alias honed, signed by {signer}\n" in text
    assert f'kedro_hone.load("models:/digits@honed", verify=kedro_hone.{policy})' in text
    assert "native" not in text.split("\n\n")[-1]


def test_a_publication_without_an_alias_says_why():
    publication = make_publication().model_copy(update={"alias": None, "note": "The alias was moved meanwhile."})
    text = capture(make_evidence(), publication=publication)
    assert "Published: models:/digits@honed\n" in text
    assert "The alias was moved meanwhile.\n" in text


def test_every_finalist_is_in_the_table():
    text = capture(make_evidence(), width=160)
    assert "winner" in text
    assert "onnxruntime.int8-static-per-channel" in text
    assert "not looked at" in text


def test_what_looks_like_rich_markup_is_printed_as_it_is():
    text = capture(make_evidence().model_copy(update={"reasons": ("tensor[bold red]x[/] and [link=http://x]y",)}))
    assert "tensor[bold red]x[/] and [link=http://x]y" in text


@pytest.mark.attack(
    what="escape sequences in names and errors, for the terminal",
    who="registry",
    stopped_by="control characters are replaced",
)
@pytest.mark.parametrize("width", [60, 160])
def test_no_control_characters_reach_the_terminal(width):
    evidence = spoil(make_evidence())

    publication = make_publication().model_copy(update={"uri": f"models:/{CONTROLS}@honed", "alias": CONTROLS})
    text = capture(evidence, width=width, folder=Path(f"runs/{CONTROLS}"), publication=publication)

    assert "\ufffd]0;OWNED" in text
    assert not find_controls(text)


def test_without_a_winner_there_is_nothing_to_load():
    assert "kedro_hone.load" not in capture(make_evidence(Verdict.KEEP))


def test_it_names_the_gpu_next_to_the_processor():
    evidence = make_evidence()
    hardware = evidence.hardware.model_copy(update={"gpu": "NVIDIA H100 80GB HBM3"})
    text = capture(evidence.model_copy(update={"hardware": hardware}), width=160)
    assert "AMX), 2 cores, NVIDIA H100 80GB HBM3" in text


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.KEEP])
def test_it_names_the_processor_that_the_times_hold_for(verdict):
    text = capture(make_evidence(verdict), width=160)
    assert "On Intel(R) Xeon(R) Platinum 8488C (AVX-512, VNNI, BF16, AMX), 2 cores" in text
