"""Which addresses of model servers may be asked, and the key for one."""

import ipaddress
import os
from contextlib import suppress
from importlib.util import find_spec
from urllib.parse import urlsplit

OLLAMA_URL = "http://127.0.0.1:11434"
KEYRING = "hybrid-retrieve"  # under which the system's keyring has our keys


def ollama_url(setting: str, *, allow_remote: bool) -> str:
    """Return the server to ask: the one of the setting, else of OLLAMA_HOST, else the usual one on this machine.

    Raises:
        ValueError: as `allowed_url`.
    """
    url = _complete_url(setting or os.environ.get("OLLAMA_HOST", "")) or OLLAMA_URL
    return allowed_url(url, allow_remote=allow_remote, section="llm")


def allowed_url(url: str, *, allow_remote: bool, section: str) -> str:
    """Return the URL without a closing slash.

    Raises:
        ValueError: as `server_url`; or the settings of that section do not allow another machine.
    """
    url = server_url(url)
    if not allow_remote and not is_this_machine(url):
        what = "is another machine, which would read questions and documents"
        raise ValueError(f"{url} {what}: set {section}.allow_remote")
    return url


def server_url(url: str) -> str:
    """Return the URL without a closing slash; ValueError without a host or with a password, which would be logged."""
    if "@" in url or "?" in url:
        raise ValueError("a key, name or password in the address would end up in logs: leave it out")
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port of 99999
        is_server = False
    if not is_server or any(map(str.isspace, url)):
        raise ValueError(f"{url!r} is no address such as {OLLAMA_URL}")
    return url.rstrip("/")


def is_this_machine(url: str) -> bool:
    """Return whether a server's address (as `server_url` gives it) leads to this machine and to no other."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_key(name: str, url: str) -> str:
    """Return the key for a server: the variable of that name, else that entry in the system's keyring; may be empty.

    Raises:
        ValueError: it cannot be sent, or would travel to another machine unencrypted. No message has the key.
    """
    key = os.environ.get(name, "").strip() if name else ""
    if name and not key and find_spec("keyring"):
        import keyring
        from keyring.errors import KeyringError

        with suppress(KeyringError):  # there is none on this machine, or it stays locked
            key = (keyring.get_password(KEYRING, name) or "").strip()
    if not key.isascii() or any(letter.isspace() or not letter.isprintable() for letter in key):
        raise ValueError(f"{name} holds no key: it has blanks, or letters that no key has")
    if key and url.startswith("http:") and not is_this_machine(url):
        how = "name an address with https, make a tunnel (ssh -L), or set api_key_env to the name of an empty variable"
        raise ValueError(f"the key {name} would travel to {url} unencrypted: {how}")
    return key


def explain_key(name: str) -> str:
    """Return how to hand over a key; the keyring's command asks for it, so that no history of commands has it."""
    return f"put the key into the variable {name}, or: uv run --extra keyring keyring set {KEYRING} {name}"


def _complete_url(address: str) -> str:
    """Return OLLAMA_HOST as Ollama reads it: scheme, host and port may be missing; 0.0.0.0 means this machine."""
    address = address.strip().strip("\"'").strip()
    scheme, _, rest = address.rpartition("://")
    with suppress(ValueError):  # it is a name, an IPv4 address, or has a port or a path
        rest = f"[{ipaddress.IPv6Address(rest)}]"
    try:
        parts = urlsplit(f"{scheme or 'http'}://{rest}")
        port = parts.port
    except ValueError:
        return address
    if not address or parts.username is not None:
        return address
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname or "", parts.hostname)
    host = f"[{host}]" if ":" in f"{host}" else host
    number = port if port is not None else {"http": 80, "https": 443}.get(scheme, 11434)
    return f"{parts.scheme}://{host}:{number}{parts.path}"
