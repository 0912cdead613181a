"""The language model of a local Ollama, which is asked for one JSON object at a time.

task    what a model is asked to write, and how its answer is read
client  HTTP to a model server, within a time and a size; Ollama's own client on top of it
ollama  the generator: looks at the model, asks it, tries again where that may help, rests after failures
speed   how fast the model is, so that a stage asks for what it can do in time
check   whether the language model can be used, for `doctor` and `eval`
"""

from typing import TYPE_CHECKING

from retriever.settings.schema import LlmSettings

if TYPE_CHECKING:
    from retriever.llm.ollama import OllamaGenerator


def open_generator(settings: LlmSettings) -> "OllamaGenerator":
    """The model that the settings name. Nothing is asked yet: every fault is a LanguageModelError of `write`."""
    from retriever.llm.ollama import OllamaGenerator  # its HTTP client takes 60 ms to import

    return OllamaGenerator(settings)
