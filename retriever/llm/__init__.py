"""The language model on a server, which is asked for one JSON object at a time.

task           what a model is asked to write, and how its answer is read
server         what the servers of all kinds have in common: what is tried again, what a fault means
ollama_server  Ollama's own API, by its client
openai_server  OpenAI's API, as most other servers speak it, by the official client
generator      looks at the model, asks it, tries again where that may help, rests after failures
speed          how fast the model is, so that a stage asks for what it can do in time
check          whether the language model can be used, for `doctor` and `eval`
"""

from typing import TYPE_CHECKING

from retriever.settings.schema import LlmSettings

if TYPE_CHECKING:
    from retriever.llm.generator import ServedGenerator


def open_generator(settings: LlmSettings) -> "ServedGenerator":
    """The model that the settings name. Nothing is asked yet: every fault is a LanguageModelError of `write`."""
    from retriever.llm.generator import ServedGenerator  # its HTTP client takes 60 ms to import

    return ServedGenerator(settings)
