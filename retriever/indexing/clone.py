"""Repositories that are named by their address: cloned by git into the user's cache folder, and brought up to date."""

import os
import re
import subprocess
from hashlib import sha256
from pathlib import Path

from retriever.errors import DocumentsError
from retriever.files import find_cache_file, make_private_folder, writing_to

_REPOSITORY = re.compile(r"(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:(?!/{2})", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?<=//)[^/@]*@")  # may have a password in it
# A git hook has these of its own repository.
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")


def is_repository(place: str) -> bool:
    """Whether a text is the address of a repository: `https://...`, `ssh://...`, `file:///...`, `git@host:path`."""
    return _REPOSITORY.match(place) is not None


def update_clone(address: str) -> Path:
    """The folder of a repository's newest files, without its history; nobody is asked for a password.

    Raises:
        DocumentsError: there is no git, it failed, or this user has no cache folder.
    """
    plain = _ACCOUNT.sub("", address)
    name = re.sub(r"\W+", "-", plain.removesuffix("/").removesuffix(".git").rpartition("/")[2])[:40]
    folder = find_cache_file(f"repositories/{name}-{sha256(plain.encode()).hexdigest()[:8]}")
    if folder is None:
        raise DocumentsError(
            f"{plain} cannot be cloned, as this user has no cache folder; clone it, and name the clone"
        )
    if (folder / ".git").is_dir():
        _run_git(address, "-C", str(folder), "fetch", "--quiet", "--depth", "1", "--", address, "HEAD")
        _run_git(address, "-C", str(folder), "checkout", "--quiet", "--detach", "FETCH_HEAD")  # which loses no work
        return folder
    draft = folder.with_name(f"{folder.name}.{os.getpid()}")  # another process may clone it, too
    with writing_to(folder):
        make_private_folder(folder.parent)
        _run_git(address, "clone", "--quiet", "--depth", "1", "--", address, str(draft))
        draft.rename(folder)
    return folder


def _run_git(address: str, *arguments: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "LC_ALL": "C"}
    environment.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    try:
        done = subprocess.run(
            ["git", *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise DocumentsError("a repository needs git, which is not installed; install it, or name a folder") from error
    if done.returncode:
        plain = _ACCOUNT.sub("", address)
        said = " ".join(_ACCOUNT.sub("", done.stderr.decode(errors="replace")).split())
        raise DocumentsError(
            f"{plain} cannot be cloned or brought up to date: {said or f'git ended with {done.returncode}'}"
        )
