"""Hostile servers: every request is answered by one of many behaviours, chosen by the number of the case."""

import random
from collections.abc import Callable
from typing import NamedTuple

from support.services.servers import Handler

DATA = bytes(range(256)) * 600
OTHER = DATA[::-1]
HALF = len(DATA) // 2
ZEROS = bytes(1 << 16)
ESCAPE = "\x1b[2J\x1b]0;x\x07"
Script = Callable[[Handler], None]


class Case(NamedTuple):
    """``known``: what the YAML says about the file. ``other``: the bad server may deliver another whole file."""

    name: str
    answers: list[Script]
    known: dict
    other: bool


def answer(status: str = "200 OK", body: bytes = DATA, length: int | None = -1, **headers: str) -> Script:
    """An answer with these headers. A length of -1 is replaced by the true length; None sends no length."""
    if length is not None:
        headers["Content-Length"] = str(len(body) if length == -1 else length)
    lines = [f"HTTP/1.1 {status}", *(f"{key.replace('_', '-')}: {value}" for key, value in headers.items()), "", ""]
    head = "\r\n".join(lines).encode("latin-1")
    return lambda handler: handler.wfile.write(head + body)


def endless(head: bytes, piece: bytes) -> Script:
    def script(handler: Handler) -> None:
        handler.wfile.write(head)
        while True:
            handler.wfile.write(piece)

    return script


def ranged(data: bytes = DATA, piece: int | None = None, total: int = 0, lie: int = 0, tag: str = '"1"') -> Script:
    """The rest of a file, or a piece of it; ``lie`` is added to the position at which the piece claims to begin."""

    def script(handler: Handler) -> None:
        asked = handler.headers.get("Range", "bytes=-").removeprefix("bytes=").split("-")[0]
        if not asked:
            return answer(body=data, ETag=tag)(handler)
        start = int(asked)
        rest = data[start : None if piece is None else start + piece]
        claimed = f"bytes {start + lie}-{start + lie + len(rest) - 1}/{total or len(data)}"
        return answer("206 Partial", rest, ETag=tag, Content_Range=claimed)(handler)

    return script


REST = f"bytes 9-{len(DATA) - 1}/{len(DATA)}"
CUT = answer(body=DATA[:HALF], length=len(DATA), ETag='"1"')
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BEHAVIOURS: dict[str, tuple[Script, bool]] = {
    # name → what the server does, and whether its answer looks like a whole file
    "good": (answer(), True),
    "good, ranges": (ranged(), True),
    "cut": (CUT, False),
    "other content": (answer(body=OTHER), True),
    "other content, ranges": (ranged(OTHER), True),
    "shorter": (answer(body=DATA[:-5]), True),
    "longer": (answer(body=DATA + b"more"), True),
    "shorter than it says": (answer(body=DATA[:-5], length=len(DATA)), False),
    "longer than it says": (answer(body=DATA + b"more", length=len(DATA)), True),
    "no length": (answer(length=None), True),
    "empty": (answer(body=b""), False),
    "empty, no length": (answer(body=b"", length=None), False),
    "nothing at all": (lambda handler: None, False),
    "half a header": (lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le"), False),
    "not HTTP": (lambda handler: handler.wfile.write(b"\0\1\2hello\r\n\r\n"), False),
    "length of 10**18": (answer(length=10**18), False),
    "length of 5000 digits": (answer(Content_Length="9" * 5000, length=None), True),
    "negative length": (answer(length=-7), True),
    "two lengths": (answer(content_length=str(10**9)), False),
    "endless": (endless(b"HTTP/1.1 200 OK\r\n\r\n", ZEROS), False),
    "endless chunks": (endless(CHUNKED, b"10000\r\n" + ZEROS + b"\r\n"), False),
    "endless trailers": (endless(CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n" * 2000), False),
    "endless 100": (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500), False),
    "endless headers": (endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 2000), False),
    "endless header": (endless(b"HTTP/1.1 200 OK\r\nX: ", ZEROS), False),
    "endless redirect": (endless(b"HTTP/1.1 302 Found\r\nLocation: /bad\r\n\r\n", ZEROS), False),
    "chunk of another size": (lambda handler: handler.wfile.write(CHUNKED + b"ffffff\r\n" + DATA), False),
    "no chunk": (lambda handler: handler.wfile.write(CHUNKED + b"hello\r\n"), False),
    "redirect to itself": (answer("302 Found", b"", Location="/bad"), False),
    "redirect to a file": (answer("302 Found", b"", Location="file:///etc/hostname"), False),
    "redirect to nowhere": (answer("302 Found", b"", Location="http://["), False),
    "redirect without a target": (answer("302 Found", b""), False),
    "204": (answer("204 No Content", b""), False),
    "202": (answer("202 Accepted"), False),
    "206 that nobody asked for": (answer("206 Partial", DATA[9:], Content_Range=REST), False),
    "299": (answer("299 Odd"), False),
    "404": (answer("404 Not Found"), False),
    "416": (answer("416 No", b"", Content_Range=f"bytes */{HALF}"), False),
    "429": (answer("429 Busy", b"", Retry_After="9" * 5000), False),
    "503": (answer("503 Busy", b"", Retry_After="Fri, 31 Dec 99999 23:59:59 GMT"), False),
    "gzip": (answer(Content_Encoding="gzip"), False),
    "HTML": (answer(body=b"<!doctype html><title>no</title>"), False),
    "HTML in UTF-16": (answer(body="<html><title>no</title>".encode("utf-16")), False),
    "XML": (answer(body=b"<?xml version='1.0'?><Error><Message>no</Message>"), False),
    "JSON": (answer(body=b'{"message": "no"}'), False),
    "escape sequences": (answer(f"404 {ESCAPE}", X_Error_Message=ESCAPE), False),
    "short pieces": (ranged(piece=10), True),
    "pieces": (ranged(piece=HALF // 3), True),
    "another part": (ranged(lie=5), True),
    "another total": (ranged(total=len(DATA) + 9), True),
    "another tag": (ranged(OTHER, tag='"2"'), True),
}  # fmt: skip
WHOLE = (DATA, OTHER, DATA[:-5], DATA + b"more")
"""The files that a server delivers as a whole; any other content is a mixture of several."""
KNOWN = ({"size": len(DATA), "sha256": True}, {"sha256": True}, {"size": len(DATA)}, {"unverified": True})


def case(number: int) -> Case:
    """The case with this number, always the same; all pairs of behaviours come before any is repeated."""
    names = sorted(BEHAVIOURS)
    pairs = [(first, second) for first in names for second in names]
    random.Random(0).shuffle(pairs)
    first, second = pairs[number % len(pairs)]
    known = KNOWN[(number // len(pairs) + number) % len(KNOWN)]
    whole = any(BEHAVIOURS[name][1] for name in (first, second))
    scripts = [BEHAVIOURS[name][0] for name in (first, second)]
    return Case(f"{number}: {first}, then {second}, {sorted(known)}", scripts, known, whole)
