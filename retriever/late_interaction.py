"""Late interaction: a question and a passage compared token by token. Pure.

Khattab and Zaharia, "ColBERT: efficient and effective passage search via contextualized late interaction over BERT",
SIGIR 2020: each token of the question is as near to a passage as the nearest of its tokens, and the passage as near to
the question as the mean of these (their MaxSim, here of [-1, 1]). One vector has to say everything at once; the tokens
still say which of it. Of each token's vector only the signs are kept: 48 bytes in place of 1,536, and measured to rank
as well as the numbers themselves.
"""

from collections.abc import Sequence

import numpy as np

from retriever.types import FloatMatrix, TokenBits

BITS_OF_A_WORD = 64


def sign_bits(vectors: FloatMatrix) -> TokenBits:
    """(t, d) -> (t, ceil(d / 64)): a bit for each number, 1 where it is above 0; what fills the last word is 0."""
    signs = np.packbits(vectors > 0, axis=1)
    filled = np.zeros((len(signs), -(-vectors.shape[1] // BITS_OF_A_WORD) * 8), dtype=np.uint8)
    filled[:, : signs.shape[1]] = signs
    return filled.view(np.uint64)


def max_similarity(question: TokenBits, passages: Sequence[TokenBits]) -> float:
    """MaxSim of a question with the tokens of all passages of a section together; -1 to 1, higher is better.

    The similarity of two tokens is 1 - 2 * (share of signs that differ): the cosine of the vectors of signs. A question
    or a section without tokens has 0.
    """
    tokens = np.concatenate([np.empty((0, question.shape[1]), dtype=np.uint64), *passages])
    if not len(question) or not len(tokens):
        return 0.0
    differing = np.bitwise_count(question[:, np.newaxis, :] ^ tokens[np.newaxis, :, :]).sum(axis=2, dtype=np.int32)
    return float(1 - 2 * differing.min(axis=1).mean() / (question.shape[1] * BITS_OF_A_WORD))
