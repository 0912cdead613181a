"""The generator with a real Ollama: OLLAMA_HOST or the usual address, and the first model that is there.

Without one the tests are skipped and say so. `LLM_TEST_MODEL` names another model.
"""

import os

import pytest
from pydantic import BaseModel

from retriever.errors import LanguageModelError
from retriever.served.generator import ServedGenerator, open_server
from retriever.served.task import Task
from retriever.served.transport import Limits, ServedError, request_json
from retriever.settings.schema import LlmSettings

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def settings() -> LlmSettings:
    try:
        tags = request_json(f"{open_server(LlmSettings()).url}/api/tags", Limits(0.5, 2))
        names = sorted(model["name"] for model in tags["models"])
        names = [os.environ["LLM_TEST_MODEL"]] if "LLM_TEST_MODEL" in os.environ else names
    except (LanguageModelError, ServedError, LookupError) as error:
        pytest.skip(f"no Ollama to test with: {error}")
    if not names:
        pytest.skip("Ollama has no model")
    return LlmSettings(model=names[0], num_ctx=4096, seconds=120, load_seconds=180)


class Rewordings(BaseModel):
    queries: list[str]


def test_an_object_of_the_shape_is_written_and_written_again(settings: LlmSettings) -> None:
    task = Task(
        instructions='Write the question in two other ways, as JSON: {"queries": ["...", "..."]}.',
        material="How do I restart the server after an update?",
        answer=Rewordings,
        max_tokens=200,
    )
    generator = ServedGenerator(settings)
    written = generator.write(task)
    assert written.queries
    assert generator.write(task) == written


def test_material_that_fills_the_room_is_read_whole(settings: LlmSettings) -> None:
    generator = ServedGenerator(settings)
    instructions = 'Write the secret word at the very end of the text, as JSON: {"queries": ["the word"]}.'
    filling = "The harbour was quiet, and the boats lay still. " * 1000
    secret = "\nThe secret word is heron."
    room = generator.room(instructions, 50) - len(secret)
    task = Task(instructions=instructions, material=filling[:room] + secret, answer=Rewordings, max_tokens=50)
    assert generator.write(task).queries
