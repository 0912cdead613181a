"""Which addresses of servers may be asked, and the key for one."""

import ipaddress
import os
from urllib.parse import urlsplit

from retriever.errors import UsageError
from retriever.settings.layers import KEYS

OLLAMA_URL = "http://127.0.0.1:11434"


def ollama_url(setting: str, *, allow_remote: bool = True) -> str:
    """Return the server to ask: the one of the setting, else of OLLAMA_HOST, else the usual one on this machine.

    Scheme and port may be missing, and 0.0.0.0 means this machine. The rest is as in `server_url`.
    """
    url = (setting or os.environ.get("OLLAMA_HOST", "")).replace("0.0.0.0", "127.0.0.1", 1) or OLLAMA_URL
    if "://" not in url:
        has_port = ":" in url.rpartition("]")[2]
        url = f"http://{url}" if has_port else f"http://{url}:11434"
    return server_url(url, allow_remote=allow_remote)


def server_url(url: str, *, allow_remote: bool = True) -> str:
    """Return the URL without a closing slash.

    Raises:
        UsageError: it has no host, or a password, which would be logged; or it leads to another machine, and
            `allow_remote` is false.
    """
    if "@" in url or "?" in url:
        raise UsageError("a key, name or password in the address would end up in logs: leave it out")
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port of 99999
        is_server = False
    if not is_server or any(map(str.isspace, url)):
        raise UsageError(f"{url!r} is no address of a server: write it as http://HOST:PORT")
    if not (allow_remote or is_this_machine(url)):
        what = "is another machine, which would read questions and documents"
        raise UsageError(f"{url} {what}: set allow_remote")
    return url.rstrip("/")


def is_this_machine(url: str) -> bool:
    """Return whether a server's address (as `server_url` gives it) leads to this machine and to no other."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_key(section: str, url: str) -> str:
    """Return the key for the server of a section, from its variable in KEYS, else OPENAI_API_KEY; empty without one.

    Raises:
        UsageError: it cannot be sent, or would travel to another machine unencrypted. No message has the key.
    """
    own = KEYS[section]
    name = own if own in os.environ else "OPENAI_API_KEY"
    key = os.environ.get(name, "").strip()
    if not key.isascii() or any(letter.isspace() or not letter.isprintable() for letter in key):
        raise UsageError(f"{name} holds no key: it has blanks, or letters that no key has")
    if key and url.startswith("http:") and not is_this_machine(url):
        how = f"name an address with https, make a tunnel (ssh -L), or send none ({own}=)"
        raise UsageError(f"the key {name} would travel to {url} unencrypted: {how}")
    return key
