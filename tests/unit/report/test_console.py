import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from controls import CONTROLS, find_controls
from rich.console import Console
from sample import make_evidence, make_publication, spoil

from hone_runtime.values.decision import Verdict
from hone_runtime.values.measurement import Status
from kedro_hone.report.console import print_verdict
from kedro_hone.report.snippets import START, enter, note_start


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def capture(evidence, *, width=100, folder=Path("run"), terminal=False, **arguments):
    stream = Terminal() if terminal else io.StringIO()
    print_verdict(evidence, Console(file=stream, width=width, color_system=None), folder=folder, **arguments)
    return stream.getvalue()


def test_the_command_to_confirm_names_the_folder_if_it_was_typed_elsewhere(tmp_path, monkeypatch):
    project, start = tmp_path / "my project", tmp_path / "start"
    folder = project / "data" / "hone" / "runs" / "last"
    for one in (folder, start):
        one.mkdir(parents=True)
    wait = "the winner waits until `kedro-hone run --from-nodes confirm` confirms it on a quiet machine"
    evidence = make_evidence(Verdict.INCONCLUSIVE).model_copy(update={"reasons": (wait,)})
    publication = make_publication().model_copy(update={"note": f"It has no alias: {wait}."})
    monkeypatch.chdir(project)
    assert "until `kedro-hone run --from" in capture(evidence, folder=folder)
    with note_start(start):
        text = capture(evidence, folder=folder, publication=publication)
    assert text.count(f"`cd '{project}' && kedro-hone run --from-nodes confirm`") == 2
    assert START not in os.environ
    monkeypatch.chdir(start)  # as `kedro-hone report FOLDER` is typed
    assert f"`cd '{project}' && kedro-hone run --from-nodes confirm`" in capture(evidence, folder=folder)


def test_the_printed_line_runs_in_the_folder_where_it_is_printed(tmp_path, monkeypatch):
    """The run found `./mlflow.db` by itself, and no shell has its variable."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    with note_start(tmp_path):
        text = capture(make_evidence(), publication=make_publication())
        advice = enter(Path("there"))
    (line,) = [one.removeprefix("Load: ") for one in text.splitlines() if one.startswith("Load: ")]
    assert advice == f"cd there && MLFLOW_TRACKING_URI=sqlite:///{tmp_path}/mlflow.db "
    stub = "import os\ndef load(uri): raise SystemExit(uri + ' ' + os.environ['MLFLOW_TRACKING_URI'])\n"
    (tmp_path / "kedro_hone.py").write_text(stub)
    bare = {"PATH": os.environ["PATH"]}
    found = subprocess.run(
        [sys.executable, "-c", line], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert found.stderr == f"models:/digits@honed sqlite:///{tmp_path}/mlflow.db\n"


def test_a_registry_that_the_user_named_is_not_in_the_printed_line(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://user:word@mlflow.invalid")
    with note_start(tmp_path):
        assert "MLFLOW_TRACKING_URI" not in capture(make_evidence(), publication=make_publication())


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("width", [80, 160])
def test_a_terminal_shows_the_verdict_first_and_folds_all_but_what_is_copied(verdict, width):
    text = capture(make_evidence(verdict), width=width, terminal=True)
    assert verdict.value in text.strip().splitlines()[0]
    copied = ("Report", "Published", "Load")
    assert all(len(line) <= width for line in text.splitlines() if not line.startswith(copied))
    assert sum(line.startswith("finalist ") for line in text.splitlines()) == 1


@pytest.mark.parametrize("verdict", Verdict)
def test_elsewhere_each_part_is_a_line_that_is_neither_wrapped_nor_padded(verdict):
    text = capture(make_evidence(verdict), width=20)
    lines = text.splitlines()
    assert lines[0].startswith(f"{verdict.value}: ")
    assert "\x1b" not in text
    assert all(line == line.strip() for line in lines)
    labels = [line.partition(":")[0] for line in lines]
    assert labels.count("Report") == 1
    assert labels.count("Finalist") == len(make_evidence(verdict).finalists)
    assert ("Winner" in labels) is ("Load" in labels) is (verdict is Verdict.PASS)
    assert ("Next" in labels) is (verdict is not Verdict.PASS)


def test_in_githubs_logs_it_is_plain_and_no_command(monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    evidence = make_evidence().model_copy(update={"reasons": ("fine\n::error::forged",)})
    text = capture(evidence, terminal=True)
    assert text.splitlines()[0].startswith("PASS: ")
    assert not any(line.startswith("::") for line in text.splitlines())
    assert "fine | ::error::forged" in text


def test_the_winner_is_named_in_words():
    assert "Winner: int8 in ONNX Runtime\n" in capture(make_evidence())


def test_a_composite_is_named_by_its_parts_and_never_by_its_id():
    parts = {"batch1": "onnx.a", "batch64": "onnx.b", "batch8": "onnx.b"}
    routes = {"onnx.a": ("onnxruntime.int8-static", "onnxruntime.session"), "onnx.b": ("openvino.ir", "openvino.bf16")}
    evidence = make_evidence()
    made = [evidence.candidates[1].model_copy(update={"id": name, "route": route}) for name, route in routes.items()]
    composite = evidence.candidates[1].model_copy(update={"id": "composite", "route": (), "parts": parts})
    winner = evidence.winner.model_copy(update={"candidate": "composite"})
    finalist = evidence.finalists[0].model_copy(update={"id": "composite"})
    evidence = evidence.model_copy(
        update={"candidates": (*made, composite), "winner": winner, "finalists": (finalist,), "quality": ()}
    )
    said = "int8 in ONNX Runtime for batch 1, bf16 in OpenVINO for batch 64 and batch 8"
    assert f"Winner: {said}\n" in capture(evidence)
    shown = capture(evidence, width=160, terminal=True)
    assert said in shown
    assert "composite" not in shown


def test_the_source_is_not_counted_as_a_candidate():
    evidence = make_evidence()
    measured = sum(one.status is Status.MEASURED for one in evidence.candidates if one.id != "source")
    assert f"Candidates: {measured} measured, " in capture(evidence)


def test_what_may_help_is_the_next_step_and_no_cause():
    reasons = ("of 3 candidates: 3 not fast enough", "what may help: other shapes")
    text = capture(make_evidence(Verdict.KEEP).model_copy(update={"reasons": reasons}))
    assert "Why: of 3 candidates: 3 not fast enough\n" in text
    assert "Next: Nothing has to be done: keep the source. What may help: other shapes.\n" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_it_says_where_the_report_is_and_how_to_load_the_winner_in_one_line_each(terminal):
    folder = Path("data/hone/runs") / ("a-long-name" * 10)
    text = capture(make_evidence(), folder=folder, publication=make_publication(), terminal=terminal)
    assert f"{folder}/report.html" in text
    assert "models:/digits@honed, with the alias honed\n" in text
    (line,) = [line for line in text.splitlines() if line.startswith("Load")]
    assert 'import kedro_hone; model = kedro_hone.load("models:/digits@honed"); outputs = model(*inputs)' in line


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
    (line,) = [line for line in text.splitlines() if line.startswith("Load")]
    assert f'kedro_hone.load("models:/digits@honed", verify=kedro_hone.{policy}); outputs = model(*inputs)  # ' in line
    assert "native" not in line


def test_a_publication_without_an_alias_says_why():
    publication = make_publication().model_copy(update={"alias": None, "note": "The alias was moved meanwhile."})
    text = capture(make_evidence(), publication=publication)
    assert "Published: models:/digits@honed\n" in text
    assert "The alias was moved meanwhile.\n" in text


def test_every_finalist_is_in_the_table():
    text = capture(make_evidence(), width=160, terminal=True)
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
@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("width", [60, 160])
def test_no_control_characters_reach_the_terminal(width, terminal):
    evidence = spoil(make_evidence())

    publication = make_publication().model_copy(update={"uri": f"models:/{CONTROLS}@honed", "alias": CONTROLS})
    text = capture(evidence, width=width, folder=Path(f"runs/{CONTROLS}"), publication=publication, terminal=terminal)

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
    assert "on Intel(R) Xeon(R) Platinum 8488C (AVX-512, VNNI, BF16, AMX), 2 cores" in text
