"""Ctrl-C and SIGTERM as a wish that is granted after the step, so that nothing is lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Wish:
    """The signal that asked to stop, if one did."""

    asked_by: signal.Signals | None = None


@contextmanager
def polite_signals() -> Iterator[Wish]:
    """Within the block the first signal is noted; a second Ctrl-C acts at once.

    A second SIGTERM does not: under torchrun one comes from the scheduler and one from torchrun.
    """
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish  # only the main thread may say what signals do
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def note(number: int, frame: FrameType | None) -> None:
        wish.asked_by = wish.asked_by or signal.Signals(number)
        signal.signal(signal.SIGINT, before[signal.SIGINT])

    try:
        for number in _SIGNALS:
            signal.signal(number, note)
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
