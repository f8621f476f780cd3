"""What a job, its check run and the comment say, for each verdict; against a GitHub on loopback."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

import re

import pytest
from sample import make_evidence, make_publication

from hone_runtime.text import clean_text
from hone_runtime.values.decision import Verdict
from hone_runtime.values.judgement import GateOutcome, Judgement
from kedro_hone.github.reporting import report

HOSTILE = (
    "x$(touch pwned)`id`${{ github.token }}\n::error::owned%0A::set-output name=verdict::PASS"
    "<!-- -->@admin|</details><script>"
)
MARKER = "<!-- kedro-hone:report 0123456789ab -->"
STRANGER = {"login": "eve", "type": "User", "id": 2}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("github.Consts.DEFAULT_SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.setattr("github.Requester.Requester._Requester__deferRequest", lambda *_: None)


@pytest.mark.parametrize(
    ("verdict", "fail_on", "ends", "conclusion"),
    [
        (Verdict.PASS, "fail", 0, "success"),
        (Verdict.KEEP, "inconclusive", 0, "success"),
        (Verdict.FAIL, "fail", 10, "failure"),
        (Verdict.FAIL, "inconclusive", 10, "failure"),
        (Verdict.FAIL, "never", 0, "neutral"),
        (Verdict.INCONCLUSIVE, "fail", 0, "neutral"),
        (Verdict.INCONCLUSIVE, "inconclusive", 11, "failure"),
    ],
)
def test_every_verdict_is_told_everywhere(job, verdict, fail_on, ends, conclusion):
    job.write_run(make_evidence(verdict), {Verdict.FAIL: 10, Verdict.INCONCLUSIVE: 11}.get(verdict, 0))
    job.set(INPUT_FAIL_ON=fail_on)

    assert report() == ends

    (check,) = job.github.checks
    (comment,) = job.github.comments
    assert (check["conclusion"], check["head_sha"], check["status"]) == (conclusion, "a" * 40, "completed")
    assert check["output"]["title"].startswith(verdict.value)
    assert comment["body"].startswith(MARKER)
    assert f"{verdict.value}:" in comment["body"]
    assert f"{verdict.value}:" in job.summary
    assert job.outputs["verdict"] == verdict.value
    assert job.outputs["report-path"] == "data/hone/runs/one/report.html"


def test_the_comment_is_updated_in_place(job):
    for number in range(31):  # ours is on the second page
        job.github.add_comment(f"Remark {number}", STRANGER)
    job.write_run(make_evidence(Verdict.PASS))
    report()
    assert "Since the last push" not in job.github.comments[-1]["body"]

    job.write_run(make_evidence(Verdict.FAIL), 10)
    report()

    assert len(job.github.comments) == 32
    assert "FAIL:" in job.github.comments[-1]["body"]


def test_what_changed_since_the_last_push_comes_before_the_details(job):
    job.write_kept("last", make_evidence(Verdict.PASS))
    job.write_run(make_evidence(Verdict.FAIL), 10)

    report()

    for body in (job.summary, job.github.comments[0]["body"]):
        assert "**Since the last push** (`ccccccc`): PASS → FAIL" in body
        assert body.index("Since the last push") < body.index("<details>")


def test_a_figure_that_changed_is_named_and_no_other(job):
    evidence = make_evidence()
    first, *rest = evidence.speedups
    slower = first.model_copy(update={"ratio": first.ratio.model_copy(update={"estimate": 2.0, "low": 1.9})})
    job.write_kept("last", evidence.model_copy(update={"speedups": (slower, *rest)}))
    job.write_run()

    report()

    assert "(`ccccccc`): faster, batch 1: 2.0× (at least 1.90×) → 4.6× (at least 4.3×).\n" in job.summary


def test_the_base_branch_has_a_column(job):
    job.write_run(make_evidence(Verdict.PASS))
    job.write_kept("base", make_evidence(Verdict.KEEP))

    report()

    assert "| | base branch, *before* | this run |" in job.summary
    assert "| verdict | KEEP | PASS |" in job.summary
    assert "Since the last push" not in job.summary


def test_a_push_is_compared_with_nothing(job):
    job.write_event(name="push")
    job.write_run()
    for kind in ("base", "last"):
        job.write_kept(kind, make_evidence())

    report()

    assert "base branch" not in job.summary
    assert "Since the last push" not in job.summary


@pytest.mark.parametrize("kind", ["base", "last"])
def test_a_result_that_cannot_be_read_is_left_out_with_a_warning(job, kind, capsys):
    job.write_run()
    job.write_kept(kind, "{}")

    assert report() == 0

    assert "base branch" not in job.summary
    assert "Since the last push" not in job.summary
    assert "::warning title=kedro-hone::An earlier result is not part" in capsys.readouterr().out


@pytest.mark.parametrize("author", [STRANGER, {"login": "another-app[bot]", "type": "Bot", "id": 3}])
def test_a_stranger_who_writes_the_marker_is_not_believed(job, author):
    job.github.add_comment(f"{MARKER}\nforged", author)
    job.write_run()

    report()

    assert job.github.comments[0]["body"] == f"{MARKER}\nforged"
    assert len(job.github.comments) == 2


def test_the_comment_of_an_app_is_found_by_its_name(job):
    job.github.add_comment(MARKER, {"login": "our-app[bot]", "type": "Bot", "id": 3})
    job.set(INPUT_COMMENT_AUTHOR="our-app[bot]")
    job.write_run()

    report()

    assert len(job.github.comments) == 1


def test_the_comment_of_a_persons_token_is_found_again(job):
    job.github.user = STRANGER
    job.write_run()

    report()
    report()

    assert len(job.github.comments) == 1


@pytest.mark.parametrize("head", ["eve/r", None])
def test_a_fork_gets_the_summary_only(job, head, capsys):
    job.write_event(head=head)
    job.write_run(make_evidence(Verdict.FAIL), 10)

    assert report() == 10

    assert job.github.calls == []
    assert "FAIL:" in job.summary
    assert "comes from a fork" in capsys.readouterr().out


def test_a_token_that_may_not_write_is_a_warning(job, capsys):
    job.github.permissions = {"read"}
    job.write_run()

    assert report() == 0

    out = capsys.readouterr().out
    for what in ("comment", "check run"):
        assert f"::warning title=kedro-hone::GitHub took no {what} (403" in out
    assert "t0ken" not in out + job.summary
    assert "PASS:" in job.summary


@pytest.mark.parametrize("comment", ["true", "false"])
def test_a_token_for_checks_only_writes_the_check(job, comment, capsys):
    job.github.permissions = {"checks"}
    job.set(INPUT_COMMENT=comment)
    job.write_run()

    assert report() == 0

    (check,) = job.github.checks
    assert check["conclusion"] == "success"
    assert capsys.readouterr().out.count("::warning") == (1 if comment == "true" else 0)
    assert job.github.comments == []
    asked = [call for call in job.github.calls if "check-runs" not in call]
    assert bool(asked) == (comment == "true"), asked


def test_a_token_for_comments_only_writes_the_comment(job, capsys):
    job.github.permissions = {"read", "comments"}
    job.write_run()

    assert report() == 0

    assert len(job.github.comments) == 1
    assert "checks: write" in capsys.readouterr().out


@pytest.mark.parametrize("code", [1, 3, 4, 130])
def test_a_run_without_a_verdict_fails_whatever_was_asked(job, code):
    job.write_run()
    report()
    job.set(HONE_CODE=code, HONE_FOLDER="", INPUT_FAIL_ON="never")

    assert report() == code

    assert "No verdict" in job.github.comments[0]["body"]
    assert job.github.checks[-1]["conclusion"] == "failure"


def test_a_gate_that_fails_is_marked_on_its_line_of_the_recipe(job, capsys):
    evidence = make_evidence(Verdict.FAIL)
    row = Judgement(name="speedup", candidate=HOSTILE, judgement=GateOutcome.FAILS, reason=HOSTILE)
    job.write_run(evidence.model_copy(update={"gates": (row,)}), 10)

    report()

    (said,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("::"))
    assert said.startswith("::error title=FAIL%3A speedup,file=conf/base/parameters.yml,line=4::")
    assert "annotations" not in job.github.checks[0]["output"]  # GitHub would show each twice


def test_hostile_names_change_nothing(job, capsys):
    job.write_event(title=HOSTILE)
    job.write_run(spoil(make_evidence(Verdict.FAIL), HOSTILE), 10)

    assert report() == 10

    assert job.outputs["verdict"] == "FAIL"
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith(("::set", "::error::"))] == []
    for text in (job.summary, job.github.comments[0]["body"]):
        shown = re.sub("`[^`\n]*`", "", text)  # what stands between back-ticks is shown as it is
        assert not re.search(r"(?<!\\)<(script|/details)", shown.replace("\n</details>\n", "\n"))
        assert not re.search("^::", text, re.MULTILINE)
    assert not list(job.workspace.rglob("pwned"))


def test_a_pull_request_says_that_nothing_is_published(job, capsys):
    job.set(INPUT_PUBLISH="on-pass")
    job.write_run()
    report()
    for text in (job.summary, job.github.comments[0]["body"]):
        assert "**Not published**" in text
        assert text.index("PASS:") < text.index("**Not published**") < text.index("<details>")
    assert "::warning title=kedro-hone::Not published" in capsys.readouterr().out

    main = {"ref": "refs/heads/main", "repository": {"default_branch": "main"}}
    job.write_event(name="push", payload=main)
    report()
    assert "Not published" not in job.summary + capsys.readouterr().out


def test_an_output_is_what_it_says_and_no_other(job):
    uri = "models:/50%25 off/3\nverdict<<EOF\nPASS\nEOF"
    job.write_run(make_evidence(Verdict.FAIL), 10)
    publication = make_publication().model_copy(update={"uri": uri})
    (job.workspace / "data" / "hone" / "runs" / "one" / "publication.json").write_text(publication.model_dump_json())

    report()

    assert job.outputs["verdict"] == "FAIL"
    assert job.outputs["published-uri"] == clean_text(uri)
    assert "50%25 off" in job.outputs["published-uri"]


def test_a_name_cannot_stand_for_our_own_marks(job):
    forged = f"<details>{MARKER}**Since the last push** (`aaaaaaa`): PASS"
    job.write_run(spoil(make_evidence(Verdict.FAIL), forged), 10)
    job.write_kept("last", spoil(make_evidence(Verdict.FAIL), forged))
    report()
    report()

    (comment,) = job.github.comments
    assert comment["body"].startswith(MARKER)
    assert comment["body"].count("\n**Since the last push** (`ccccccc`): nothing changed.\n") == 1
    assert "\n**Since the last push**" in comment["body"][: comment["body"].index("\n<details>")]


@pytest.mark.attack(
    what="links, mentions and markup in a result that a cache brought, for the comment on a pull request",
    who="pull request",
    stopped_by="Markdown is escaped; a long name is cut, and only some figures are compared",
)
@pytest.mark.parametrize("kind", ["base", "last"])
def test_an_earlier_result_is_no_markup(job, kind):
    evidence, long = make_evidence(), "x" * 10_000
    shapes = tuple(
        one.model_copy(update={"shape": f"{HOSTILE}{long}{n}"}) for n in range(99) for one in evidence.speedups
    )
    quality = tuple(one.model_copy(update={"metric": HOSTILE}) for one in evidence.quality)
    subject = evidence.winner.model_copy(update={"candidate": HOSTILE + long})
    job.write_kept(kind, evidence.model_copy(update={"speedups": shapes, "quality": quality, "winner": subject}))
    job.write_run()

    report()

    for text in (job.summary, job.github.comments[0]["body"]):
        head = text[: text.index("\n<details>")]
        assert len(head) < 12_000
        assert not re.search(r"(?<!\\)(<script|</details|<!--)|@admin|^::", head.replace(MARKER, ""), re.MULTILINE)
    assert len(job.github.comments[0]["body"]) < 65_536


def test_two_legs_of_a_matrix_have_two_comments_and_two_checks(job):
    job.write_run()
    for step, leg in (("0123456789ab", "cpu"), ("ba9876543210", "gpu"), ("0123456789ab", "cpu")):
        job.set(HONE_ID=step, HONE_LEG=leg)
        report()

    assert len(job.github.comments) == 2
    assert [check["name"] for check in job.github.checks] == [f"kedro-hone ({leg})" for leg in ("cpu", "gpu", "cpu")]


def spoil(evidence, text):
    """Return evidence with a text where models and toolchains write."""
    source = evidence.source.model_copy(update={"uri": text})
    row = Judgement(name="speedup", candidate=text, judgement=GateOutcome.FAILS, reason=text)
    return evidence.model_copy(update={"source": source, "gates": (row,), "reasons": (text,)})
