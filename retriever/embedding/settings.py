"""What a user says about the encoder."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt

from retriever.settings.setting import setting


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Which model turns texts into vectors, and how it is reached."""

    kind: Literal["onnx", "sentence-transformers", "ollama", "openai", "none"] = setting(
        "onnx", "What runs the embedding model; none: search by words and structure alone."
    )
    model: str = setting("", "The model's name or folder; empty: the one that comes with the program (onnx).")
    url: str = setting("", "The server of the kinds ollama (empty: http://127.0.0.1:11434) and openai (ending in /v1).")
    api_key_env: str = setting("OPENAI_API_KEY", "The environment variable that holds the key of the kind openai.")
    query_prefix: str = setting("", "Put before each question; empty: what the model itself asks for.")
    document_prefix: str = setting("", "Put before each document; empty: what the model itself asks for.")
    max_tokens: Annotated[int, Ge(16)] = setting(
        256, "How many tokens of a text are read at most; the model's own limit where that is less."
    )
    threads: Annotated[int, Ge(0)] = setting(0, "Threads of the kind onnx; 0: one for each core.")
    batch_size: Annotated[int, Ge(1)] = setting(16, "Texts in a request of the kinds ollama and openai.")
    batch_seconds: Annotated[float, Gt(0)] = setting(120, "The longest wait for such a request while indexing.")
    question_seconds: Annotated[float, Gt(0)] = setting(10, "The longest wait for a question's vector from a server.")
