"""Progress speaks on standard error, with a rate and the time left, and only of long work."""

import pytest
from tests.conftest import Heard

from unmask.progress import SILENT, Console, _BarStage, _PlainStage, counted, duration, held


def test_silent_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with SILENT.stage("work", 3) as stage:
        stage.advance(3)
        stage.note("x")
    SILENT.say("hello")
    assert capsys.readouterr() == ("", "")


def test_remarks_wait_and_are_not_said_of_what_is_refused(heard: Heard) -> None:
    with held(heard) as told, told.stage("work"):
        told.say("first")
        assert (heard.stages, heard.said) == (["work"], [])
    told.say("second")
    with pytest.raises(ValueError, match="refused"), held(heard) as told:
        told.say("third")
        raise ValueError("refused")
    assert heard.said == ["first", "second"]


def test_a_remark_is_said_as_it_stands_there(capsys: pytest.CaptureFixture[str]) -> None:
    Console().say("[/] and [b]x in :cat:.txt")
    assert capsys.readouterr() == ("", "[/] and [b]x in :cat:.txt\n")


def test_short_work_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    with Console().stage("work", 3) as stage:
        stage.advance(3)
    assert capsys.readouterr() == ("", "")


def test_long_work_shows_rate_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_PlainStage, "interval", 0.0)
    with Console().stage("reading", 10, "MB") as stage:
        stage.note("file 1")
        stage.advance(4)
    out, err = capsys.readouterr()
    assert out == ""
    assert "reading: 4 of 10 MB" in err
    assert "MB/s" in err
    assert "s left" in err
    assert "file 1" in err


def test_what_was_done_before_says_nothing_of_the_rate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_PlainStage, "interval", 0.0)
    now = iter([0.0, 0.0, 0.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0])
    monkeypatch.setattr("unmask.progress.time.monotonic", lambda: next(now))
    with Console().stage("training", 500, "steps") as stage:
        stage.skip(300)
        capsys.readouterr()
        stage.advance(20)  # in ten seconds
        assert capsys.readouterr().err == "training: 320 of 500 steps · 2 steps/s · 90 s left\n"


def test_one_is_singular(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_PlainStage, "interval", 0.0)
    assert [counted(many, "text") for many in (0, 1, 2000)] == ["0 texts", "1 text", "2,000 texts"]
    assert [counted(2, noun) for noun in ("entry", "class", "training text")] == [
        "2 entries", "2 classes", "2 training texts"
    ]  # fmt: skip
    with Console().stage("training", 1, "steps") as stage:
        stage.advance(1)
        assert "training: 1 of 1 step · " in capsys.readouterr().err
        stage.expect(2)
        stage.advance(0)
        assert "training: 1 of 2 steps · " in capsys.readouterr().err


def test_on_a_terminal_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Console().stage("preparing", 2000, "MB") as stage:
        assert isinstance(stage, _BarStage)
        stage.start -= 50  # as if it had gone on for so long
        for _ in range(10):
            stage.skip(100)
        stage.advance(500)
        assert stage.left() == pytest.approx(50, rel=0.1)
        assert stage.bar.tasks[0].fields["left"] in ("0:00:50", "0:00:51")


def test_work_without_a_unit_shows_no_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_PlainStage, "interval", 0.0)
    with Console().stage("adding 5 entries") as stage:
        stage.advance(1)
    assert capsys.readouterr().err == "adding 5 entries\n"


def test_on_a_terminal_work_without_numbers_leaves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    erased = "\x1b[1A\x1b[2K"  # one line up, and clear it
    with Console().stage("grouping"):
        pass
    shown = capsys.readouterr().err
    assert "grouping" in shown
    assert shown.endswith(erased)
    with Console().stage("reading", 1, "MB") as stage:
        stage.advance(1)
    assert not capsys.readouterr().err.endswith(erased)


def test_little_work_is_not_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_PlainStage, "interval", 0.0)
    with Console().stage("reading", 0.0234, "MB") as stage:
        stage.advance(0.0123)
    assert "reading: 0.012 of 0.023 MB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (1.2, "1 second"),
        (7.4, "7 seconds"),
        (150, "2.5 minutes"),
        (9000, "2.5 hours"),
        (864_000, "10.0 days"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
