"""What some models want to read before a question and before a document."""

from dataclasses import dataclass

from retriever.embedding.tokens import Tokens
from retriever.errors import EncoderError


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Texts such as `query: ` and `passage: `, put before what is encoded."""

    query: str = ""
    """Before a question."""
    document: str = ""
    """Before a document."""

    def room(self, tokens: Tokens, limit: int) -> int:
        """How many of the model's tokens are left for a text, special ones included.

        Raises:
            EncoderError: hardly any.
        """
        if not self.query and not self.document:
            return limit
        alone, *lengths = tokens.count(["", self.query, self.document])
        room = limit - (max(lengths) - alone)
        if room < limit // 2:
            raise EncoderError(f"the encoder's prefixes take {limit - room} of its {limit} tokens: shorten them")
        return room
