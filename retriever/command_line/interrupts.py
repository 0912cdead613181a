"""Ctrl-C, also where a library makes another error of it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """The list holds SIGINT when it came in the block, whatever became of its KeyboardInterrupt.

    A native module that is interrupted while it is loaded may end with any other error. Where SIGINT is ignored or
    handled otherwise, and in threads, which it does not reach, nothing is changed and nothing noted.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield came
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
