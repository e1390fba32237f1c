"""A local web server that can misbehave in many ways."""

import contextlib
import fcntl
import functools
import re
import ssl
import sys
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from recheck.data.patience import Patience
from support.suite.hang import HANG_SECONDS

patient = functools.partial(Patience, timeout=HANG_SECONDS)
"""The bounds of a download from a server of the tests, which may be slow because the machine is busy."""


@dataclass
class Answer:
    """Answer to a request. ``cut``: the connection ends after this many bytes; ``hold``: it hangs instead."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    cut: int | None = None
    hold: bool = False
    length: int | None = None
    """A Content-Length other than the true one; negative for none."""
    piece: int | None = None
    """The most bytes in the answer to a range."""
    reason: str | None = None
    script: "Callable[[Handler], None] | None" = None
    """Writes the whole answer, instead of all of the above."""


class Server(ThreadingHTTPServer):
    """``answers`` has a list per path: each request uses one answer, and the last one is repeated."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.let_go = threading.Event()
        self.holding = threading.Event()
        """Set when an answer hangs, that is, when it has sent all that it will send."""
        self.tls: ssl.SSLContext | None = None
        self.errors: list[BaseException] = []

    def give(self, path: str, *answers: Answer | bytes) -> str:
        self.answers[path] = [Answer(answer) if isinstance(answer, bytes) else answer for answer in answers]
        return self.url + path

    def handle_error(self, request, address):
        """Keep the error for ``serving``. A client that goes away in the middle of an answer is none."""
        if not isinstance(error := sys.exc_info()[1], OSError):
            self.errors.append(error)

    def asked_for(self, path: str, header: str = "Range") -> list[str | None]:
        """The headers of each request for a path."""
        return [headers.get(header) for asked, headers in self.asked if asked == path]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        answers = self.server.answers.get(self.path)
        if not answers:
            return self.send_error(404)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.script is not None:
            with contextlib.suppress(OSError):
                answer.script(self)
            self.close_connection = True
            return None
        body, status, extra = answer.body, answer.status, dict(answer.headers)
        start = self._start(answer)
        if start is not None and start >= len(body):
            status, extra["Content-Range"], body = 416, f"bytes */{len(body)}", b""
        elif start is not None:
            end = len(body) if answer.piece is None else min(len(body), start + answer.piece)
            status, extra = 206, {"Content-Range": f"bytes {start}-{end - 1}/{len(body)}", **extra}
            body = body[start:end]
        self.send_response(status, answer.reason)
        length = len(body) if answer.length is None else answer.length
        if length >= 0:
            self.send_header("Content-Length", str(length))
        for key, value in extra.items():
            self.send_header(key, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body if answer.cut is None else body[: answer.cut])
            self.wfile.flush()
        if answer.hold:
            _wait_until_delivered(self.connection)
            self.server.holding.set()
            self.server.let_go.wait()

    def _start(self, answer: Answer) -> int | None:
        """The byte at which a request resumes, if the file is unchanged since the first request."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        known = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if answer.status != 200 or not answer.ranges or not asked or (condition and condition != known):
            return None
        return int(asked[1])

    def do_CONNECT(self):
        """Act as a proxy that answers for every host, with the tests' certificate."""
        self.send_response(200)
        self.end_headers()
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.close_connection = False

    def finish(self):
        with contextlib.suppress(OSError):
            super().finish()
        self.connection.close()

    def log_message(self, *arguments):
        pass


def _wait_until_delivered(connection) -> None:
    """Wait until the client's kernel has received all bytes; only Linux tells this."""
    left = bytearray(4)
    while sys.platform == "linux":
        fcntl.ioctl(connection, termios.TIOCOUTQ, left)
        if not int.from_bytes(left, sys.byteorder):
            return
        time.sleep(0.001)


@contextlib.contextmanager
def serving():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.let_go.set()
            server.shutdown()
            thread.join()
    if server.errors:
        raise server.errors[0]
