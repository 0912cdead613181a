"""Python's collector of cyclic garbage, in a process that loads its modules, does one thing and ends."""

import atexit
import gc

BETWEEN_COLLECTIONS = 50_000
"""New objects before the collector looks at them; Python's own number is 700. The modules of an ask are 127,000 objects
that stay, and to look at them again and again takes 8 % of its time. Garbage of more objects than that still goes."""


def collect_rarely() -> None:
    """Looks for garbage less often, and not at the end, when all memory goes back at once: 15 % of an ask."""
    gc.set_threshold(BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)
