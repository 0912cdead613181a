"""What a model wrote for a question, kept in the user's cache folder: a small private file for each question.

Not in the index: an index may be read-only, and what is written for a question depends on the index only by the
vocabulary that the model was given, which is part of the key. The files are dispensable: where one cannot be read or
written, the model is asked again.
"""

import json
import logging
import re
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from pageindex.corpus import read_file
from retriever.expansion.prompt import WrittenExpansion
from retriever.files import find_cache_file, make_private_folder, write_file
from retriever.served.task import Task

log = logging.getLogger(__name__)

FOLDER_NAME = "expansions"
MAX_ENTRIES = 1_000
MAX_BYTES = 50_000  # of an entry; no question needs a longer answer
_FILE_NAME = re.compile(r"[0-9a-f]{64}\.json")  # of ours: nothing else in the folder is removed


def cache_key(model: str, task: Task[WrittenExpansion]) -> str:
    """Return a hash of the model, the prompt and its numbers, the question in any case and spacing, the grounding."""
    parts = [model, task.instructions, task.temperature, task.max_tokens, " ".join(task.material.casefold().split())]
    return sha256(json.dumps(parts).encode()).hexdigest()


def read_cached(key: str) -> WrittenExpansion | None:
    """Return what is kept for the key, if anything."""
    folder = find_cache_file(FOLDER_NAME)
    if folder is None:
        return None
    try:
        return WrittenExpansion.model_validate_json(read_file(folder / f"{key}.json", MAX_BYTES))
    except (OSError, ValidationError):  # there is none, or another version wrote it
        return None


def keep_expansion(key: str, written: WrittenExpansion) -> None:
    """Keep what a model wrote; the oldest ones go."""
    folder = find_cache_file(FOLDER_NAME)
    if folder is None:
        return
    try:
        make_private_folder(folder)
        write_file(folder / f"{key}.json", written.model_dump_json())
        files = [path for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name)]
        if len(files) > MAX_ENTRIES:
            for path in sorted(files, key=_modified_at)[:-MAX_ENTRIES]:
                path.unlink(missing_ok=True)
    except OSError as error:
        log.info("%s: %s", folder, error)


def _modified_at(path: Path) -> float:
    return path.lstat().st_mtime
