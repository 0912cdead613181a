"""The language model of a local Ollama: asked for one JSON object at a time, and never for longer than was agreed.

`server` talks to Ollama, `answers` finds the object in what a model wrote, `breaker` rests after failures, `ollama`
puts them together, and `check` says what is amiss.
"""

from typing import TYPE_CHECKING

from retriever.llm.generator import Generator
from retriever.settings.stages import LlmSettings

if TYPE_CHECKING:
    from retriever.llm.check import LlmFinding

__all__ = ["check_llm", "open_generator"]


def open_generator(settings: LlmSettings) -> Generator:
    """The model that the settings name.

    Nothing is asked yet, and nothing checked: whatever is wrong, the address included, is a GeneratorError of `write`,
    so that a stage that can do without has one place where it does.
    """
    from retriever.llm.ollama import OllamaGenerator  # its HTTP client takes 60 ms

    return OllamaGenerator(settings)


def check_llm(settings: LlmSettings) -> "tuple[LlmFinding, ...]":
    """What there is to say of the server, the model, its context window and a real answer, which takes its time.

    Each finding has `what`, `is_well` and `says`; see `retriever.llm.check`.
    """
    from retriever.llm import check

    return check.check_llm(settings)
