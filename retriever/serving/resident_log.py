"""The log of a resident process that nobody sees: one file, bounded, its owner's alone."""

import os
import time
from pathlib import Path

MAX_LOG_BYTES = 200_000


def write_log(path: str, text: str) -> None:
    """Adds one line with its time; a file that has grown too long is begun anew."""
    file = Path(path)
    begun_anew = file.exists() and file.stat().st_size > MAX_LOG_BYTES
    flags = os.O_CREAT | os.O_WRONLY | (os.O_TRUNC if begun_anew else os.O_APPEND)
    with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {' '.join(text.split())[:2000]}\n")
