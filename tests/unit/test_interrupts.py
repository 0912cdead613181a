"""Ctrl-C ends a command line as Ctrl-C, whatever a library makes of it."""

import signal
import threading

import pytest

from retriever.command_line.program import note_interrupts, run
from retriever.retriever import Retriever


def half_loaded(*_: object, **__: object) -> Retriever:
    """As a native module that was interrupted while it was loaded."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise AttributeError("module 'native' has no attribute 'Fail'") from None
    raise AssertionError("it was not interrupted")


def test_another_error_that_it_becomes_is_an_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["what is it?"], "hybrid_retrieve.py", half_loaded) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_it_is_ignored_it_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with note_interrupts() as came:
            signal.raise_signal(signal.SIGINT)
        assert came == []
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_thread_has_none() -> None:
    outcomes: list[list[int]] = []

    def work() -> None:
        with note_interrupts() as came:
            outcomes.append(came)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcomes == [[]]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
