"""Progress with rate and time left: a live line on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta


class Progress:
    """Silent. Library functions take one of these and default to it; the command line passes `Console()`."""

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator["Stage"]:
        """One piece of work; `total` in `unit`, if known beforehand."""
        yield Stage()

    def say(self, message: str) -> None:
        """A remark that is not part of the result."""


class Stage:
    """What a running piece of work reports to."""

    def advance(self, amount: float) -> None:
        """So much more is done."""

    def skip(self, amount: float) -> None:
        """So much was done before: it counts, and says nothing of the rate."""
        self.advance(amount)

    def expect(self, total: float) -> None:
        """So much there is to do in all, as is known by now."""

    def note(self, text: str) -> None:
        """A few words shown behind the numbers."""


SILENT = Progress()


class _Held(Progress):
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._remarks: list[str] | None = []

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator["Stage"]:
        with self._progress.stage(label, total, unit) as stage:
            yield stage

    def say(self, message: str) -> None:
        if self._remarks is None:
            self._progress.say(message)
        else:
            self._remarks.append(message)

    def release(self) -> None:
        """Say what was held, and from here on all at once."""
        remarks, self._remarks = self._remarks or [], None
        for remark in remarks:
            self._progress.say(remark)


@contextmanager
def held(progress: Progress) -> Iterator[Progress]:
    """Progress whose remarks wait for the end of the block: what is refused in it is told alone."""
    later = _Held(progress)
    yield later
    later.release()


_UNKNOWN = "-:--:--"  # the time that is left


class Console(Progress):
    """Writes to standard error, so that standard output holds results alone."""

    def __init__(self) -> None:
        from rich.console import Console as RichConsole

        self._console = RichConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    def say(self, message: str) -> None:
        self._console.print(message, markup=False)

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
        if not self._console.is_terminal:
            plain = _PlainStage(label, total, unit)
            yield plain
            plain.finish()
            return
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[amount]}"),
            TextColumn("{task.fields[left]}"),
            TextColumn("[dim]{task.fields[note]}"),
        )
        with RichProgress(*columns, console=self._console, transient=not unit) as bar:  # no numbers to keep
            yield _BarStage(bar, label, total, unit)


class _Counter(Stage):
    def __init__(self, label: str, total: float | None, unit: str) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done, self.before, self.text = 0.0, 0.0, ""
        self.start = time.monotonic()

    def skip(self, amount: float) -> None:
        self.before += amount
        self.advance(amount)

    def expect(self, total: float) -> None:
        self.total = total

    def rate(self) -> float:
        return (self.done - self.before) / max(time.monotonic() - self.start, 1e-9)

    def left(self) -> float | None:
        """Seconds until all is done, as far as can be told."""
        rate = self.rate()
        return (self.total - self.done) / rate if self.total and rate else None

    def amount(self) -> str:
        rate = self.rate()
        of = f" of {_figure(self.total)}" if self.total else ""
        unit = self.unit.removesuffix("s") if (self.total or self.done) == 1 else self.unit
        return f"{_figure(self.done)}{of} {unit} · {_figure(rate)} {self.unit}/s"


class _PlainStage(_Counter):
    interval = 10.0

    def __init__(self, label: str, total: float | None, unit: str) -> None:
        super().__init__(label, total, unit)
        self.last = self.start

    def advance(self, amount: float) -> None:
        self.done += amount
        now = time.monotonic()
        if now - self.last >= self.interval:
            self.last = now
            left = self.left()
            self._print("" if left is None else f" · {left:,.0f} s left")

    def note(self, text: str) -> None:
        self.text = text

    def finish(self) -> None:
        seconds = time.monotonic() - self.start
        if seconds >= 2:
            self._print(f" · done in {seconds:,.1f} s")

    def _print(self, end: str) -> None:
        note = f" · {self.text}" if self.text else ""
        amount = f": {self.amount()}" if self.unit else ""
        print(f"{self.label}{amount}{end}{note}", file=sys.stderr, flush=True)


class _BarStage(_Counter):
    def __init__(self, bar: "object", label: str, total: float | None, unit: str) -> None:
        super().__init__(label, total, unit)
        from rich.progress import Progress as RichProgress

        assert isinstance(bar, RichProgress)
        self.bar = bar
        self.task = bar.add_task(label, total=total, amount="", left=_UNKNOWN, note="")

    def advance(self, amount: float) -> None:
        self.done += amount
        left = self.left()
        if self.total and self.done >= self.total:
            left = time.monotonic() - self.start  # what it took
        shown = _UNKNOWN if left is None else str(timedelta(seconds=round(left)))
        self.bar.update(self.task, completed=self.done, amount=self.amount(), left=shown)

    def expect(self, total: float) -> None:
        super().expect(total)
        self.bar.update(self.task, total=total)

    def note(self, text: str) -> None:
        self.bar.update(self.task, note=text)


def _figure(value: float) -> str:
    """Whole numbers, unless so little is left of them that it says nothing."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def counted(many: int, noun: str) -> str:
    """A number of things, in words: `1 text`, `2,000 texts`."""
    if many == 1:
        return f"1 {noun}"
    stem, end = (noun[:-1], "ies") if noun[-1] == "y" else (noun, "es" if noun[-1] == "s" else "s")
    return f"{many:,} {stem}{end}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for name, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return counted(round(seconds), "second")
