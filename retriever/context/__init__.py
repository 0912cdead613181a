"""An answer's sections as context for a prompt, in the order of the flow.

gathering   hits -> whole sections, from the index
merging     which sections complete a family; no text twice
budget      which lines of them fit
grouping    lines -> pieces below their common headings
rendering   pieces -> Markdown
assembling  sections -> context: all of this in its order
asking      question -> answer and context, of one state of the index
"""

from retriever.context.asking import AnswerInContext, ask_for_context
from retriever.context.assembling import Context, assembled, bundled_count
from retriever.context.gathering import gathered
from retriever.context.sections import Excerpt, Group, LeftOut, Piece, Section

__all__ = [
    "AnswerInContext",
    "Context",
    "Excerpt",
    "Group",
    "LeftOut",
    "Piece",
    "Section",
    "ask_for_context",
    "assembled",
    "bundled_count",
    "gathered",
]
