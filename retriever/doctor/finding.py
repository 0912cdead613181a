"""What the doctor says of one thing that it looked at."""

from dataclasses import dataclass
from typing import Literal

Area = Literal["environment", "index", "language model"]
Level = Literal["well", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    area: Area
    name: str
    """What was looked at, in a word or two."""
    level: Level
    """`note`: worth knowing, nothing is broken; `problem`: something does not work, or soon will not."""
    says: str
    """What was seen."""
    cure: str = ""
    """What to do about it; empty where there is nothing to be done."""
