"""The resident process, as its users meet it: processes that ask, one that answers, and all that can go wrong."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from retriever.command_line import COMMANDS
from retriever.errors import ServingError
from retriever.serving import resident_client
from retriever.serving.resident_client import (
    MAX_REQUEST_BYTES,
    MAX_SOCKET_PATH,
    GoneError,
    NoResidentError,
    ResidentPaths,
    is_question,
    program_identity,
    read_message,
    read_mode,
    send_message,
    talk,
    user_id,
)
from retriever.serving.resident_server import Listener
from tests.program import PROGRAM, PROJECT, command, environment, in_terminal, slow
from tests.real.served import indexed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="it sends signals and listens at Unix sockets")

QUESTION = "who flies to the flowers?"
WAIT_S = 30.0
"""For what takes a second on a machine that does nothing else."""
EXACT = {"HYBRID_RETRIEVE_VECTOR_SEARCH": "exact"}
"""Answers without loading ChromaDB."""
DEAD_ENDS = ("note: the resident process", "asked without it")


@dataclass(frozen=True)
class Desk:
    """A user: folders of their own, and an index."""

    folder: Path
    environment: dict[str, str]

    def ask(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command(*arguments), check=False, cwd=self.folder, env=self.environment | variables, capture_output=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def paths(self) -> ResidentPaths:
        return ResidentPaths(self.environment)

    def state(self) -> dict[str, Any] | None:
        try:
            return talk(self.paths, {"kind": "status"})
        except NoResidentError:
            return None

    def answered(self) -> int:
        state = self.state()
        return state["questions"] if state else -1

    def call(self, *words: str, **variables: str) -> dict[str, Any]:
        """A question as a client sends it, for streams that are no terminals."""
        facts = {"tty": False, "encoding": "utf-8", "line_buffering": False}
        own = {"folder": str(self.folder), "environment": self.environment | variables}
        shape = {"program_name": "hybrid_retrieve.py", "columns": 0, "stdout": facts, "stderr": facts}
        return {"kind": "ask", "words": list(words), **own, **shape}

    def elsewhere(self, name: str) -> "Desk":
        """The same user with another place for a resident process."""
        runtime = self.folder.parent / name
        runtime.mkdir(mode=0o700, exist_ok=True)
        return Desk(self.folder, self.environment | {"XDG_RUNTIME_DIR": str(runtime)})


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def is_listening(desk: Desk) -> bool:
    return Path(desk.paths.socket).exists() and desk.state() is not None


@contextmanager
def resident(desk: Desk, *arguments: str, program: Path = PROGRAM) -> Iterator[subprocess.Popen[bytes]]:
    """`serve` as somebody types it, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, str(program), "serve", *arguments], env=desk.environment, stderr=subprocess.PIPE
    )
    try:
        until(lambda: is_listening(desk) or process.poll() is not None)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate(timeout=10)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("desk")
    index = indexed(folder)
    variables = {"XDG_RUNTIME_DIR": str(folder / "run"), "XDG_CACHE_HOME": str(folder / "cache")}
    (folder / "run").mkdir(mode=0o700)
    return Desk(folder, environment() | variables | EXACT | {"HYBRID_RETRIEVE_INDEX": str(index)})


@pytest.fixture(scope="module")
def open_desk(desk: Desk) -> Iterator[Desk]:
    """With a resident process, which all of these tests share."""
    with resident(desk):
        yield desk


def untimed(output: bytes) -> bytes:
    output = re.sub(rb'"timings_ms": \{[^}]*\}|"milliseconds": [\d.]+', b"TIME", output)
    return re.sub(rb"\d+\.\d\d s |(?m:^ +\d+\.\d(?: ms)?  )", b"TIME ", output)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--full", "--top-k", "3", QUESTION),
        ("--json", "--explain", QUESTION),
        *slow(
            [
                (("-v", "--context", QUESTION),),
                (("--explain", "--fail-on-none", "quarks"),),
                (("--top-k", "none", QUESTION),),
                (("--index", "elsewhere", QUESTION),),
            ]
        ),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_it_prints_the_same_bytes(open_desk: Desk, arguments: tuple[str, ...]) -> None:
    before = open_desk.answered()
    warm = open_desk.ask(*arguments)
    assert open_desk.answered() == before + 1
    cold = open_desk.ask(*arguments, "--resident", "never")
    assert open_desk.answered() == before + 1
    assert warm.returncode == cold.returncode
    assert untimed(warm.stdout) == untimed(cold.stdout)
    assert untimed(warm.stderr) == untimed(cold.stderr)
    assert warm.stdout or warm.stderr


@pytest.mark.slow
def test_a_terminal_gets_the_same_colours_in_the_same_order(open_desk: Desk) -> None:
    before = open_desk.answered()
    warm = in_terminal(command(QUESTION), open_desk.folder, open_desk.environment)
    assert open_desk.answered() == before + 1
    cold = in_terminal(command(QUESTION, "--resident", "never"), open_desk.folder, open_desk.environment)
    assert (warm[0], untimed(warm[1])) == (0, untimed(cold[1]))
    assert b"\x1b[" in warm[1]


def test_a_warm_question_loads_next_to_nothing(open_desk: Desk) -> None:
    script = (
        f"import sys; sys.argv = ['hybrid_retrieve.py', {QUESTION!r}]; sys.path.insert(0, {str(PROJECT)!r})\n"
        "import hybrid_retrieve; code = hybrid_retrieve.main()\n"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=open_desk.environment, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}
    assert "retriever" in loaded
    assert not loaded & {"click", "yaml", "rich", "pydantic", "numpy", "chromadb", "networkx", "pathlib", "dataclasses"}


def best(result: subprocess.CompletedProcess[bytes]) -> str:
    content = json.loads(result.stdout)
    return str(content["hits"][0]["citation"])


def test_it_sees_what_changed_at_once(open_desk: Desk) -> None:
    before = open_desk.answered()
    assert best(open_desk.ask("--json", "what does a walrus eat?")) != "walrus.md:1-3"
    page = open_desk.folder / "docs" / "walrus.md"
    page.write_text("# Walrus\n\nA walrus eats clams from the bottom of the sea.\n", encoding="utf-8")
    changed = open_desk.ask("--json", "what does a walrus eat?")
    assert best(changed) == "walrus.md:1-3"
    page.unlink()
    assert best(open_desk.ask("--json", "what does a walrus eat?")) != "walrus.md:1-3"
    profile = open_desk.folder / "mine.yaml"
    for count in (1, 2):
        profile.write_text(f"top_k: {count}\n", encoding="utf-8")
        assert len(json.loads(open_desk.ask("--json", "--profile", "mine.yaml", QUESTION).stdout)["hits"]) == count
    three = open_desk.ask("--json", QUESTION, HYBRID_RETRIEVE_TOP_K="3")
    assert len(json.loads(three.stdout)["hits"]) == 3
    wrong = open_desk.ask(QUESTION, HYBRID_RETRIEVE_TOPK="3")
    assert wrong.returncode in {1, 2}
    assert b"did you mean HYBRID_RETRIEVE_TOP_K" in wrong.stderr
    assert open_desk.answered() == before + 7


@pytest.mark.slow
def test_documents_are_indexed_by_the_process_that_names_them(open_desk: Desk) -> None:
    (open_desk.folder / "more").mkdir()
    (open_desk.folder / "more" / "page.md").write_text("# Quark\n\nA quark has a colour.\n", encoding="utf-8")
    arguments = ("--docs", "more", "--index", "more-index", "--json", "what has a colour?")
    before = open_desk.answered()
    assert best(open_desk.ask(*arguments)) == "page.md:1-3"
    assert open_desk.answered() == before
    assert best(open_desk.ask(*arguments)) == "page.md:1-3"
    assert open_desk.answered() == before + 1
    shutil.rmtree(open_desk.folder / "more-index")
    gone = open_desk.ask("--index", "more-index", "what has a colour?")
    assert gone.returncode == 1
    assert b"there is no index in" in gone.stderr or b"no index" in gone.stderr


def connected(desk: Desk) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(desk.paths.socket)
    connection.settimeout(WAIT_S)
    return connection


def reply_to(desk: Desk, data: bytes) -> dict[str, Any]:
    """What the resident process says to these bytes, after which nothing comes."""
    with connected(desk) as connection, connection.makefile("rb") as lines:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return read_message(lines, 10_000)


FACTS = {"tty": False, "encoding": "utf-8", "line_buffering": False}
CALL = {"kind": "ask", "words": ["what?"], "program_name": "x", "folder": "/", "environment": {}, "columns": 80}
CALL |= {"stdout": FACTS, "stderr": FACTS}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"{,}", "no JSON"),
        (b"[]", "no JSON object"),
        (b"\xff\xff\xff\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"GET / HTTP/1.1\r\n\r\n", "no JSON"),
        (b"x" * (MAX_REQUEST_BYTES + 1), "at most 4,000,000 bytes"),
        (b"{}", "no request of the kind None"),
        ({"kind": ["ask"]}, "no request of the kind ['ask']"),
        ({"kind": "ask"}, "KeyError('words')"),
        (CALL | {"words": "text"}, "`words` is no list"),
        (CALL | {"words": ["a\0b"]}, "is no text"),
        (CALL | {"environment": {"A": None}}, "is no text"),
        (CALL | {"environment": []}, "AttributeError"),
        (CALL | {"columns": 1e999}, "OverflowError"),
        (CALL | {"words": ["status"]}, "it is no question"),
        (CALL | {"folder": "/there/is/no/such/folder"}, "its folder cannot be entered"),
        (CALL | {"program": "another"}, "another version"),
        (CALL | {"stdout": FACTS | {"encoding": "klingon-8"}}, "unknown encoding: klingon-8"),
        (CALL | {"stdout": FACTS | {"encoding": "rot13"}}, "rot13"),
        (CALL | {"stderr": FACTS | {"encoding": "undefined"}}, "UnicodeError"),
        (CALL | {"stderr": FACTS | {"encoding": None}}, "is no text"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_message_is_told_what_is_wrong_with_it(
    open_desk: Desk, message: bytes | dict[str, Any], reason: str
) -> None:
    data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
    reply = reply_to(open_desk, data)
    assert reply["kind"] == "declined"
    assert reason in reply["reason"]
    assert open_desk.state()


def test_half_a_message_is_answered_after_a_while(open_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(open_desk) as connection, connection.makefile("rb") as lines:
        connection.sendall(b'{"kind"')
        assert read_message(lines, 10_000)["reason"] == "no whole message came in time"


@pytest.mark.slow
def test_streams_that_cannot_be_written_there_are_written_here(open_desk: Desk) -> None:
    """The process that asks has a codec of its own, which the resident process does not know."""
    script = (
        "import codecs, sys; utf8 = codecs.lookup('utf-8')\n"
        "codecs.register(lambda name: utf8 if name == 'klingon_8' else None)\n"
        "sys.stdout.reconfigure(encoding='klingon-8')\n"
        f"sys.argv = ['hybrid_retrieve.py', {QUESTION!r}]; sys.path.insert(0, {str(PROJECT)!r})\n"
        "import hybrid_retrieve; sys.exit(hybrid_retrieve.main())"
    )
    done = subprocess.run([sys.executable, "-c", script], env=open_desk.environment, capture_output=True, check=True)
    assert b"bees.md" in done.stdout
    assert not any(text.encode() in done.stderr for text in (*DEAD_ENDS, "bug"))


def test_it_survives_who_goes_away(open_desk: Desk) -> None:
    connected(open_desk).close()
    for _ in range(3):
        with connected(open_desk) as connection:
            send_message(connection, open_desk.call("--json", QUESTION))
    assert talk(open_desk.paths, open_desk.call("--json", QUESTION))["code"] == 0


@pytest.mark.slow
def test_eight_at_once_get_their_own_answers(open_desk: Desk) -> None:
    """Some with other settings than others."""
    kinds: list[tuple[str, ...]] = [("--json", "--top-k", str(1 + number % 4), QUESTION) for number in range(8)]
    expected = {kind: stripped(talk(open_desk.paths, open_desk.call(*kind))) for kind in kinds}
    assert len(set(expected.values())) == 4

    def work(kind: tuple[str, ...]) -> bool:
        replies = [talk(open_desk.paths, open_desk.call(*kind)) for _ in range(12)]
        # Declined: asked without it.
        return all(reply["kind"] == "declined" or stripped(reply) == expected[kind] for reply in replies)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, kinds))


def stripped(reply: dict[str, Any]) -> bytes:
    assert reply["kind"] == "answer", reply
    assert reply["code"] == 0
    return untimed("".join(text for number, text in reply["chunks"] if number == 1).encode("latin-1"))


def test_status_shows_it_and_only_one_runs(open_desk: Desk) -> None:
    shown = json.loads(open_desk.ask("status", "--json").stdout)["resident"]
    assert shown["pid"] == (open_desk.state() or {})["pid"]
    assert shown["bytes"] > 10_000_000
    second = open_desk.ask("serve")
    assert second.returncode == 1
    assert b"a resident process runs already" in second.stderr
    assert open_desk.state()


def test_it_finishes_the_answer_and_leaves_nothing_behind(desk: Desk) -> None:
    other = desk.elsewhere("terminated")
    with resident(other) as process:
        with connected(other) as connection, connection.makefile("rb") as lines:
            send_message(connection, other.call("--json", QUESTION))
            process.terminate()
            reply = {"kind": "alive"}
            while reply["kind"] == "alive":
                reply = read_message(lines, 1_000_000)
            assert reply["kind"] == "answer"
        assert process.wait(WAIT_S) == 0
    assert not Path(other.paths.socket).exists()


@pytest.mark.slow
def test_what_a_killed_one_left_is_replaced(desk: Desk) -> None:
    other = desk.elsewhere("killed")
    with resident(other) as process:
        process.kill()
        process.wait()
    assert Path(other.paths.socket).exists()
    alone = other.ask("--json", QUESTION)
    assert alone.returncode == 0
    assert alone.stderr == b""
    with resident(other, "--idle-minutes", "0.001") as process:
        assert process.wait(WAIT_S) == 0
    assert not Path(other.paths.socket).exists()


@pytest.mark.slow
def test_one_that_hangs_is_left_alone_and_can_be_ended(desk: Desk) -> None:
    other = desk.elsewhere("hanging")
    with resident(other) as process:
        process.send_signal(signal.SIGSTOP)
        done = other.ask("--json", QUESTION)
        assert best(done).startswith("garden/bees.md")
        assert done.stderr.count(b"\n") == 1
        assert b"the resident process does not answer; asked without it" in done.stderr
        assert other.ask("serve", "--stop").returncode == 0
        assert process.wait(WAIT_S) == -signal.SIGKILL


@contextmanager
def impostor(desk: Desk, converse: Callable[[socket.socket], None]) -> Iterator[None]:
    """Something that listens in the resident process's place."""
    Path(desk.paths.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(desk.paths.socket)
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                converse(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(WAIT_S)
        assert not thread.is_alive()


def take_question(connection: socket.socket) -> dict[str, Any]:
    with connection.makefile("rb") as lines:
        return read_message(lines, MAX_REQUEST_BYTES)


@pytest.mark.slow
def test_one_that_dies_in_the_middle_is_told_and_replaced(desk: Desk) -> None:
    other = desk.elsewhere("dying")

    def die(connection: socket.socket) -> None:
        assert take_question(connection)["words"] == ["--json", QUESTION]
        send_message(connection, {"kind": "alive"})

    with impostor(other, die):
        done = other.ask("--json", QUESTION)
    assert best(done).startswith("garden/bees.md")
    assert done.stderr.count(b"\n") == 1
    assert b"the resident process ended in the middle; asked without it" in done.stderr


@pytest.mark.slow
def test_another_version_declines_and_the_question_is_asked_without_it(desk: Desk) -> None:
    other = desk.elsewhere("version")
    programs: list[str] = []

    def decline(connection: socket.socket) -> None:
        programs.append(take_question(connection)["program"])
        send_message(connection, {"kind": "declined", "reason": "this is another version of the program"})

    with impostor(other, decline):
        done = other.ask("--json", QUESTION)
    assert best(done).startswith("garden/bees.md")
    assert done.stderr == b""
    assert programs == [program_identity()]


def test_ctrl_c_ends_the_question_alone(desk: Desk) -> None:
    other = desk.elsewhere("interrupted")
    taken = threading.Event()

    def wait(connection: socket.socket) -> None:
        take_question(connection)
        taken.set()
        assert connection.recv(1) == b""  # until the client has gone

    with impostor(other, wait):
        process = subprocess.Popen(command(QUESTION), env=other.environment, stderr=subprocess.PIPE)
        assert taken.wait(WAIT_S)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert said == b"interrupted\n"


@pytest.mark.slow
def test_it_starts_by_itself_and_leaves_when_its_program_changes(desk: Desk, tmp_path: Path) -> None:
    for name in ("retriever", "pageindex", "configs"):
        ignored = shutil.ignore_patterns("__pycache__", "models")
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=ignored)
    models = Path("retriever", "embedding", "models")
    (tmp_path / models).symlink_to(PROJECT / models)
    program = shutil.copy(PROGRAM, tmp_path)
    other = desk.elsewhere("auto")

    def ask(*arguments: str) -> bytes:
        words = [sys.executable, str(program), QUESTION, *arguments]
        return subprocess.run(words, env=other.environment, capture_output=True, check=True).stdout

    def sockets() -> list[Path]:
        return list(Path(other.paths.folder).glob("*.sock"))

    first = ask("--resident", "auto")
    until(sockets)
    note = Path(str(sockets()[0]).replace(".sock", ".pid"))
    pid = int(note.read_text())
    assert os.getsid(pid) == pid
    assert ask("--resident", "auto") == first
    assert sockets()
    os.utime(tmp_path / "retriever" / "searching" / "fusion.py")
    assert ask() == first
    until(lambda: not sockets())
    log = Path(str(note).replace(".pid", ".log"))
    until(lambda: "leaves" in log.read_text())
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def private(tmp_path_factory: pytest.TempPathFactory) -> ResidentPaths:
    return ResidentPaths({"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("own"))})


def test_others_may_not_look_into_the_folder(private: ResidentPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(private.folder)
    folder.mkdir(mode=0o700)
    assert private.is_private()
    folder.chmod(0o750)
    assert not private.is_private()
    with pytest.raises(ServingError, match="chmod 700"):
        Listener(private)
    with pytest.raises(NoResidentError):
        talk(private, {"kind": "status"})
    folder.rmdir()
    folder.symlink_to("/tmp")
    assert not private.is_private()
    folder.unlink()
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert not private.is_private()
    with pytest.raises(ServingError, match="it is not yours"):
        Listener(private)


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not say whose the other side is")
def test_a_peer_of_another_user_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert resident_client.is_same_user(ours)
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        assert not resident_client.is_same_user(ours)


def test_only_its_owner_can_reach_it(private: ResidentPaths) -> None:
    listener = Listener(private)
    assert Path(private.folder).stat().st_mode & 0o777 == 0o700
    assert Path(private.socket).stat().st_mode & 0o777 == 0o600
    listener.close()
    assert not Path(private.socket).exists()


def test_without_a_runtime_folder_it_has_one_of_its_own_and_below_a_long_path_a_short_one(tmp_path: Path) -> None:
    long, other = (ResidentPaths({"XDG_RUNTIME_DIR": str(tmp_path / (word * 30))}).socket for word in ("long", "other"))
    assert len(long) <= MAX_SOCKET_PATH
    assert long != other
    for variables in ({}, {"XDG_RUNTIME_DIR": ""}, {"XDG_RUNTIME_DIR": "relative"}):
        assert ResidentPaths(variables).folder == f"/tmp/hybrid-retrieve-{user_id()}"


def test_without_unix_sockets_there_is_none(private: ResidentPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(ServingError, match="needs Unix sockets"):
        Listener(private)
    with pytest.raises(NoResidentError):
        talk(private, {"kind": "status"})


def test_an_answer_that_never_comes_ends_the_process(private: ResidentPaths) -> None:
    script = (
        "import sys, threading; from retriever.serving.resident_client import ResidentPaths\n"
        "from retriever.serving.resident_server import ResidentServer\n"
        "paths = ResidentPaths({'XDG_RUNTIME_DIR': sys.argv[1]}); stuck = threading.Event()\n"
        "ResidentServer(lambda call: stuck.wait(), paths, lambda: 0.5).run()"
    )
    runtime = str(Path(private.folder).parent)
    process = subprocess.Popen([sys.executable, "-c", script, runtime], cwd=PROJECT)
    until(lambda: Path(private.socket).exists())
    with pytest.raises(GoneError):
        talk(private, Desk(Path("/"), {}).call(QUESTION))
    assert process.wait(WAIT_S) == 1
    assert not Path(private.socket).exists()
    assert "stuck" in Path(private.log).read_text()


def test_which_command_lines_are_questions() -> None:
    assert is_question(["-q", "ask", "what?"], COMMANDS)
    assert is_question(["--docs", "docs", "status"], COMMANDS)
    for words in ([], ["-v"], ["status"], ["-q", "index", "docs"], ["--batch=file"], ["ask", "--help"]):
        assert not is_question(words, COMMANDS), words


def test_where_the_mode_is_said() -> None:
    variables = {"HYBRID_RETRIEVE_RESIDENT": "never"}
    assert read_mode(["what?"], variables) == "never"
    assert read_mode(["--resident", "auto", "what?"], variables) == "auto"
    assert read_mode(["what?", "--resident=use"], variables) == "use"
    assert read_mode(["what?"], {}) == "use"
