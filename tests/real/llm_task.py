"""A task for a language model, and how it fails: what the tests of every kind of server share."""

import time

import pytest
from pydantic import BaseModel

from retriever.errors import LanguageModelError
from retriever.llm.task import Generator, Task

SLACK = 5.0
"""What a shared machine may take besides; a limit that is not kept is exceeded by far more."""


class Answer(BaseModel):
    queries: tuple[str, ...]


TASK = Task(instructions="Reword the question.", material="What is a boat?", answer=Answer, max_tokens=100)


def failure(generator: Generator, task: Task[Answer] = TASK) -> LanguageModelError:
    """What goes wrong; it must be no other kind of error, and take no longer than it may."""
    started = time.monotonic()
    with pytest.raises(LanguageModelError) as caught:
        generator.write(task)
    assert time.monotonic() - started < SLACK
    return caught.value
