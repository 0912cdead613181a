"""What kind of answer a question asks for, by its words: a value, a definition, a list, ... Pure.

The kind says which shape of text answers. It is a hint among others, so that a question that is read wrongly is still
answered; English and German are read, and what is in another language is of the kind `other`.
"""

import re
from enum import Enum


class QuestionKind(Enum):
    """What a question asks for."""

    DIFFERENCE = "difference"
    DEFINITION = "definition"
    VALUE = "value"
    YES_NO = "yes or no"
    LIST = "list"
    WHY = "why"
    WHERE = "where"
    HOW_TO = "how to"
    OTHER = "other"


_MOST_WORDS = 7  # of "what is a snapshot?": a longer question that begins so asks for more than a meaning
# In this order: the first that fits. Of a question in lower case.
_KINDS = [
    (kind, re.compile(pattern, re.VERBOSE))
    for kind, pattern in (
        (
            QuestionKind.DIFFERENCE,
            r"""\b(?:vs\.?|versus|differences?|differs?|compared[ ](?:to|with)|rather[ ]than|unterschiede?
                |im[ ]vergleich)\b""",
        ),
        (
            QuestionKind.DEFINITION,
            r"\b(?:meaning|definition|stands?[ ]for|bedeutung|bedeutet)\b|^what[ ]does\b.*\bmean\b",
        ),
        (
            QuestionKind.VALUE,
            r"""^(?:how[ ](?:many|much|long|often|big|large|old|far|high|fast|soon)|since[ ]when|when
                |wie[ ](?:viele?|lange|oft|groß|hoch|alt|weit)|wann|seit[ ]wann|ab[ ]wann
                |(?:\w+[ ])?(?:what|which|welche[rsmn]?)[ ](?:\w+[ ])?(?:version|release|port|value|number|size
                |limit|type|status|code|error|command|flag|option|name|setting|ip|host|date|level|format|day|time|address|amount|uhrzeit|datum|wert|zahl|nummer|betrag)\b)
              | \b(?:defaults?|minimum|maximum|version|limit|port|size|max|min|timeout|number[ ]of|amount|price|cost
                |standardwert|mindest\w*|höchst\w*|preis|kosten)\b""",
        ),
        (
            QuestionKind.YES_NO,
            r"""^(?:is|are|do|does|did|can|could|should|will|would|must|may|has|have|am|kann|darf|muss|ist|sind|hat|gibt
                |wird|soll)\b | \b(?:allowed|possible|supported|erlaubt|möglich)\??$""",
        ),
        (
            QuestionKind.LIST,
            r"""^(?:list|name|all|types|kinds|options|nenne|alle)\b
              | ^(?:\w+[ ])?(?:which|what|welche)[ ](?:\w+[ ])?\w{2,}[^\Wsu]s\b
              | \b(?:options|types|kinds|ways|reasons|list[ ]of|all[ ]the|rules|steps|alternatives|examples[ ]of
                |features|arten|möglichkeiten|gründe|schritte|regeln)\b""",
        ),
        (QuestionKind.WHY, r"^(?:why|warum|wieso|weshalb)\b"),
        (QuestionKind.WHERE, r"^(?:where|wo|wohin)\b"),
        (QuestionKind.HOW_TO, r"^(?:i[ ](?:want|need)|how|wie)\b | \bhow\b"),
    )
]
_WHAT_IS = re.compile(r"(?:what(?:['\u2019]s|[ ]is|[ ]are)|who[ ]is|was[ ](?:ist|sind)|wer[ ]ist)\b")


def read_kind(question: str) -> QuestionKind:
    """Return what a question asks for.

    >>> read_kind("what is the default port?").value
    'value'
    >>> read_kind("What is a snapshot?").value
    'definition'
    """
    text = " ".join(question.lower().split())
    for kind, pattern in _KINDS:
        if pattern.search(text):
            return kind
    return QuestionKind.DEFINITION if _WHAT_IS.match(text) and text.count(" ") < _MOST_WORDS else QuestionKind.OTHER
