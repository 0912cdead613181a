"""A question as it is read: text, not empty, not endless."""

import unicodedata

from retriever.errors import QuestionError
from retriever.trace import Recorder
from retriever.types import StageName

MAX_QUESTION_CHARS = 8_000  # a longer question is cut, and the answer says so: no search reads more


def clean_question(question: str, recorder: Recorder) -> str:
    """The question without what is no text; what is cut is noted.

    Raises:
        QuestionError: nothing is left.
    """
    text = "".join(" " if unicodedata.category(sign) in {"Cc", "Cs"} else sign for sign in question).strip()
    if not text:
        raise QuestionError("the question is empty; ask something, such as: how do I configure logging?")
    if len(text) > MAX_QUESTION_CHARS:
        recorder.degrade(StageName.QUESTION, f"only its first {MAX_QUESTION_CHARS:,} characters were read")
    return text[:MAX_QUESTION_CHARS]
