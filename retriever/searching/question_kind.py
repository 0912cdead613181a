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


# Of a question in lower case; blanks in the patterns say nothing.
_PATTERNS = {
    QuestionKind.DIFFERENCE: r"""
        \b(?: vs\.? | versus | differences? | differn?s? | different\ (?:from|to) | compared\ (?:to|with) | rather\ than
            | unterschiede? | im\ vergleich | or\ .*\b which | which\ .*\b or )\b
        """,
    QuestionKind.DEFINITION: r"""
        \b(?: meaning | definition | purpose | stands?\ for | good\ for | bedeutung | bedeutet )\b
        | ^ what\ (?:does|do|is|are|'s)\b .* \b(?: mean | do | for )\b | ^ was\ macht\b
        """,
    QuestionKind.VALUE: r"""
        ^ how\ (?: many | much | long | often | big | large | old | far | high | fast | soon )\b
        | ^ (?: since\ when | when | who | whose | wer | wann | seit\ wann | ab\ wann )\b
        | ^ wie\ (?: viele? | lange | oft | groß | hoch | alt | weit )\b
        | \b(?: defaults? | minimum | maximum | version | limit | port | size | max | min | timeout | number\ of
            | amount | price | cost | (?:return\ )?(?:value|type)\ of | name\ of | env\ var | environment\ variable
            | setting\ for | command\ to | standardwert | mindest\w* | höchst\w* | preis | kosten )\b
        """,
    QuestionKind.YES_NO: r"""
        ^ (?: is | are | do | does | did | can | could | should | will | would | must | may | has | have | am
            | kann | darf | muss | ist | sind | hat | gibt | wird | soll )\b
        | \b(?: allowed | possible | supported | erlaubt | möglich ) \?? $
        """,
    QuestionKind.WHY: r"^(?: why | warum | wieso | weshalb )\b | \b(?: reason | grund )\b",
    QuestionKind.WHERE: r"^(?: where | wo | wohin )\b | \b(?: location\ of | path\ (?:to|of) )\b",
    QuestionKind.LIST: r"""
        ^ (?: list | name | all | nenne | alle )\b
        | \b(?: options | types | kinds | ways | reasons | list\ of | all\ the | rules | steps | alternatives
            | examples | features | arguments | topics | arten | möglichkeiten | gründe | schritte | regeln )\b
        | ^ (?:\w+\ )?(?: which | what | welche )\ (?:\w+\ ){0,2}[\w-]{2,}[^\Wsui]s\b
        | ^ (?:[\w.-]+\ ){0,2}[\w-]{2,}[^\Wsui]s\ (?: of | in | for | that | to | with | from | by | available
            | returned | used | supported | per )\b
        | ^ (?:[\w.-]+\ ){1,3}[\w-]{2,}[^\Wsui]s $
        """,
    QuestionKind.HOW_TO: r"""
        ^ (?: i\ (?:want|need) | how | wie )\b | \bhow\b
        | ^ (?: add | allow | apply | avoid | build | change | check | clear | configure | connect | convert | create
            | debug | define | delete | deploy | disable | enable | find | fix | force | generate | get | give | handle
            | hide | ignore | import | install | keep | limit | list | load | loop | make | mark | merge | move | open
            | override | pass | pin | prevent | print | publish | put | read | remove | rename | replace | reset
            | restart | restrict | run | save | search | send | set | show | skip | sort | start | stop | switch
            | test | turn | undo | update | upgrade | use | write )\b
        """,
}
# In this order: the first that fits.
_KINDS = {kind: re.compile(pattern, re.VERBOSE) for kind, pattern in _PATTERNS.items()}
_WHAT_IS = re.compile(r"(?:what(?:['\u2019]?s| is| are)|who is|was (?:ist|sind)|wer ist)\b")
_WHICH = re.compile(r"(?:\w+ )?(?:what|which|welche[rsmn]?)\b")
_MOST_WORDS = 7  # of "what is a snapshot?": a longer question that begins so asks for more than a meaning
_BARE = 2  # words, and no more: a term whose meaning is asked for


def read_kind(question: str) -> QuestionKind:
    """Return what a question asks for.

    >>> read_kind("what is the default port?").value
    'value'
    >>> read_kind("What is a snapshot?").value
    'definition'
    >>> read_kind("states of a promise").value
    'list'
    """
    text = " ".join(question.lower().strip(" ?").split())
    for kind, pattern in _KINDS.items():
        if pattern.search(text):
            return kind
    words = text.count(" ") + 1
    if _WHAT_IS.match(text):
        return QuestionKind.DEFINITION if words <= _MOST_WORDS else QuestionKind.VALUE
    if _WHICH.match(text):
        return QuestionKind.VALUE
    return QuestionKind.DEFINITION if words <= _BARE else QuestionKind.OTHER
