"""What a pseudo-terminal shows."""

import os
from collections.abc import Iterator


def chunks(descriptor: int) -> Iterator[bytes]:
    """All that comes until the other side is closed."""
    try:
        while data := os.read(descriptor, 65536):
            yield data
    except OSError:  # Linux says EIO at the end of a terminal
        pass
    finally:
        os.close(descriptor)
