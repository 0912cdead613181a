"""The resident process, as its users meet it: processes that ask, one that answers, and all that can go wrong."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from retriever.command_line.default_command import VOICE_FLAGS
from retriever.command_line.program import command_line
from retriever.errors import ServingError
from retriever.serving import resident_protocol as protocol
from retriever.serving.resident_client import NoResidentError, talk
from retriever.serving.resident_door import open_door
from retriever.serving.resident_place import MAX_SOCKET_PATH, Place, program_identity
from retriever.serving.resident_protocol import GoneError, is_question, mode_of
from retriever.serving.resident_server import Resident
from tests.real.served import PROGRAM, command, environment, indexed

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
            command(*arguments),
            check=False,
            cwd=self.folder,
            env=self.environment | variables,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )

    @property
    def place(self) -> Place:
        return Place(self.environment)

    def state(self) -> dict[str, Any] | None:
        """What the resident process says of itself; None when there is none."""
        try:
            return talk(self.place, {"kind": "status"})
        except NoResidentError:
            return None

    def answered(self) -> int:
        """How many questions the resident process has answered."""
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
    return Path(desk.place.socket).exists() and desk.state() is not None


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
    return Desk(folder, environment(folder) | variables | EXACT | {"HYBRID_RETRIEVE_INDEX": str(index)})


@pytest.fixture(scope="module")
def open_desk(desk: Desk) -> Iterator[Desk]:
    """With a resident process, which all of these tests share."""
    with resident(desk):
        yield desk


def untimed(output: bytes) -> bytes:
    """Without what differs from run to run."""
    output = re.sub(rb'"timings_ms": \{[^}]*\}|"milliseconds": [\d.]+', b"TIME", output)
    return re.sub(rb"\d+\.\d\d s |(?m:^ +\d+\.\d(?: ms)?  )", b"TIME ", output)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--full", "--top-k", "3", QUESTION),
        ("--json", "--explain", QUESTION),
        ("-v", "--context", QUESTION),
        ("--explain", "--fail-on-none", "quarks"),
        ("--top-k", "none", QUESTION),
        ("--index", "elsewhere", QUESTION),
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


def on_terminal(desk: Desk, *arguments: str) -> bytes:
    """What a terminal gets, both streams in the order of their coming."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*arguments), cwd=desk.folder, env=desk.environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    parts = []
    with contextlib.suppress(OSError):  # how the end of a terminal shows
        while part := os.read(ours, 4096):
            parts.append(part)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(parts)


def test_a_terminal_gets_the_same_colours_in_the_same_order(open_desk: Desk) -> None:
    before = open_desk.answered()
    warm = on_terminal(open_desk, QUESTION)
    assert open_desk.answered() == before + 1
    assert untimed(warm) == untimed(on_terminal(open_desk, QUESTION, "--resident", "never"))
    assert b"\x1b[" in warm


def test_a_warm_question_loads_next_to_nothing(open_desk: Desk) -> None:
    script = (
        f"import sys; sys.argv = ['hybrid_retrieve.py', {QUESTION!r}]; sys.path.insert(0, {str(PROGRAM.parent)!r})\n"
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
    connection.connect(desk.place.socket)
    connection.settimeout(WAIT_S)
    return connection


def greeted(desk: Desk) -> socket.socket:
    connection = connected(desk)
    protocol.send(connection, {"protocol": 1, "program": program_identity(), "nonce": ""})
    assert protocol.receive(connection, 10_000, WAIT_S)["program"] == program_identity()
    return connection


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"kind": "ask"},
        {"kind": "ask", "words": "text", "folder": 1},
        {"kind": ["ask"]},
        {"kind": "ask", "words": ["a\0b"], "folder": "/", "environment": {"A": None}},
    ],
    ids=str,
)
def test_it_survives_any_message(open_desk: Desk, message: dict[str, Any]) -> None:
    with greeted(open_desk) as connection:
        protocol.send(connection, message)
        with contextlib.suppress(GoneError):
            assert protocol.receive(connection, 10_000, WAIT_S)["kind"] == "declined"
    assert open_desk.state()


def test_it_survives_what_is_no_message_and_who_goes_away(open_desk: Desk) -> None:
    for data in (b"", b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\3{,}", b"GET / HTTP/1.1\r\n\r\n"):
        with connected(open_desk) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
    for _ in range(3):
        with greeted(open_desk) as connection:
            protocol.send(connection, open_desk.call("--json", QUESTION))
    assert talk(open_desk.place, open_desk.call("--json", QUESTION))["code"] == 0


def test_eight_at_once_get_their_own_answers(open_desk: Desk) -> None:
    """Some with other settings than others."""
    kinds: list[tuple[str, ...]] = [("--json", "--top-k", str(1 + number % 4), QUESTION) for number in range(8)]
    expected = {kind: stripped(talk(open_desk.place, open_desk.call(*kind))) for kind in kinds}
    assert len(set(expected.values())) == 4
    wrong: list[object] = []

    def work(kind: tuple[str, ...]) -> None:
        for _ in range(12):
            reply = talk(open_desk.place, open_desk.call(*kind))
            if reply["kind"] != "declined" and stripped(reply) != expected[kind]:  # declined: asked without it
                wrong.append(reply)

    threads = [threading.Thread(target=work, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


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
        with greeted(other) as connection:
            protocol.send(connection, other.call("--json", QUESTION))
            process.terminate()
            reply = {"kind": "alive"}
            while reply["kind"] == "alive":
                reply = protocol.receive(connection, 1_000_000, WAIT_S)
            assert reply["kind"] == "answer"
        assert process.wait(WAIT_S) == 0
    assert not Path(other.place.socket).exists()


def test_what_a_killed_one_left_is_replaced(desk: Desk) -> None:
    other = desk.elsewhere("killed")
    with resident(other) as process:
        process.kill()
        process.wait()
    assert Path(other.place.socket).exists()
    alone = other.ask("--json", QUESTION)
    assert alone.returncode == 0
    assert alone.stderr == b""
    with resident(other, "--idle-minutes", "0.001") as process:
        assert process.wait(WAIT_S) == 0
    assert not Path(other.place.socket).exists()


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
    Path(desk.place.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(desk.place.socket)
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


def greet(connection: socket.socket, program: str) -> dict[str, Any]:
    """As the resident process begins; gives the request."""
    protocol.receive(connection, 10_000, WAIT_S)
    protocol.send(connection, {"protocol": 1, "program": program, "nonce": "", "proof": ""})
    return protocol.receive(connection, 10_000_000, WAIT_S)


def test_one_that_dies_in_the_middle_is_told_and_replaced(desk: Desk) -> None:
    other = desk.elsewhere("dying")

    def die(connection: socket.socket) -> None:
        assert greet(connection, program_identity())["words"] == ["--json", QUESTION]
        protocol.send(connection, {"kind": "alive"})

    with impostor(other, die):
        done = other.ask("--json", QUESTION)
    assert best(done).startswith("garden/bees.md")
    assert done.stderr.count(b"\n") == 1
    assert b"the resident process ended in the middle; asked without it" in done.stderr


def test_another_version_gets_no_question(desk: Desk) -> None:
    other = desk.elsewhere("version")
    requests: list[object] = []

    def older(connection: socket.socket) -> None:
        with contextlib.suppress(GoneError):
            requests.append(greet(connection, "another program"))

    with impostor(other, older):
        done = other.ask("--json", QUESTION)
    assert best(done).startswith("garden/bees.md")
    assert done.stderr == b""
    assert requests == []


def test_ctrl_c_ends_the_question_alone(desk: Desk) -> None:
    other = desk.elsewhere("interrupted")
    taken = threading.Event()

    def wait(connection: socket.socket) -> None:
        greet(connection, program_identity())
        taken.set()
        assert connection.recv(1) == b""  # until the client has gone

    with impostor(other, wait):
        process = subprocess.Popen(command(QUESTION), env=other.environment, stderr=subprocess.PIPE)
        assert taken.wait(WAIT_S)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert said == b"interrupted\n"


def test_it_starts_by_itself_and_leaves_when_its_program_changes(desk: Desk, tmp_path: Path) -> None:
    for name in ("retriever", "pageindex", "configs"):
        ignored = shutil.ignore_patterns("__pycache__", "models")
        shutil.copytree(PROGRAM.parent / name, tmp_path / name, ignore=ignored)
    models = Path("retriever", "embedding", "models")
    (tmp_path / models).symlink_to(PROGRAM.parent / models)
    program = shutil.copy(PROGRAM, tmp_path)
    other = desk.elsewhere("auto")

    def ask(*arguments: str) -> bytes:
        words = [sys.executable, str(program), QUESTION, *arguments]
        return subprocess.run(words, env=other.environment, capture_output=True, check=True).stdout

    def sockets() -> list[Path]:
        return list(Path(other.place.folder).glob("*.sock"))

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
def private(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place({"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("own"))})


def test_others_may_not_look_into_the_folder(private: Place) -> None:
    folder = Path(private.folder)
    folder.mkdir(mode=0o700)
    assert private.is_private()
    folder.chmod(0o750)
    assert not private.is_private()
    with pytest.raises(ServingError, match="chmod 700"):
        open_door(private)
    with pytest.raises(NoResidentError):
        talk(private, {"kind": "status"})
    folder.rmdir()
    folder.symlink_to("/tmp")
    assert not private.is_private()


def test_a_long_path_gets_a_short_one(tmp_path: Path) -> None:
    place = Place({"XDG_RUNTIME_DIR": str(tmp_path / ("long" * 30))})
    assert len(place.socket) <= MAX_SOCKET_PATH
    assert place.socket != Place({"XDG_RUNTIME_DIR": str(tmp_path / ("other" * 30))}).socket


def test_through_a_port_both_sides_show_the_token(private: Place) -> None:
    door = open_door(private, tcp=True)
    server = Resident(lambda call: (0, [(1, b"\xffanswer")]), private, door, lambda: 1.0)
    thread = threading.Thread(target=server.run)
    thread.start()
    note = Path(private.note)
    assert note.stat().st_mode & 0o777 == 0o600
    known = json.loads(note.read_text())
    assert talk(private, {"kind": "status"})["pid"] == os.getpid()
    note.write_text(json.dumps(known | {"token": "guessed"}))
    with pytest.raises(NoResidentError, match="somebody else"):
        talk(private, {"kind": "stop"})
    with socket.create_connection(("127.0.0.1", known["port"])) as connection:
        protocol.send(connection, {"protocol": 1, "nonce": ""})
        protocol.receive(connection, 10_000, WAIT_S)
        protocol.send(connection, {"kind": "stop", "proof": ""})
        assert connection.recv(1) == b""
    note.write_text(json.dumps(known))
    assert talk(private, {"kind": "stop"})["kind"] == "stopping"
    thread.join(WAIT_S)
    assert not note.exists()


def test_an_answer_that_never_comes_ends_the_process(private: Place) -> None:
    script = (
        "import sys, threading; from retriever.serving.resident_door import open_door\n"
        "from retriever.serving.resident_place import Place; from retriever.serving.resident_server import Resident\n"
        "place = Place({'XDG_RUNTIME_DIR': sys.argv[1]}); stuck = threading.Event()\n"
        "Resident(lambda call: stuck.wait(), place, open_door(place), lambda: 0.5).run()"
    )
    runtime = str(Path(private.folder).parent)
    process = subprocess.Popen([sys.executable, "-c", script, runtime], cwd=PROGRAM.parent)
    until(lambda: Path(private.socket).exists())
    with pytest.raises(GoneError):
        talk(private, Desk(Path("/"), {}).call(QUESTION))
    assert process.wait(WAIT_S) == 1
    assert not Path(private.socket).exists()
    assert "stuck" in Path(private.log).read_text()


def test_which_command_lines_are_questions() -> None:
    assert {"ask", *protocol.OTHER_COMMANDS} == set(command_line.commands)
    assert protocol.VOICE_FLAGS == VOICE_FLAGS
    assert is_question(["-q", "ask", "what?"])
    assert is_question(["--docs", "docs", "status"])
    for words in ([], ["-v"], ["status"], ["-q", "index", "docs"], ["--batch=file"], ["ask", "--help"]):
        assert not is_question(words), words


def test_where_the_mode_is_said() -> None:
    variables = {"MODE": "never"}
    assert mode_of(["what?"], variables, "MODE") == "never"
    assert mode_of(["--resident", "auto", "what?"], variables, "MODE") == "auto"
    assert mode_of(["what?", "--resident=use"], variables, "MODE") == "use"
    assert mode_of(["what?"], {}, "MODE") == "use"
