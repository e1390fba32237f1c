"""One file over HTTP, however often the connection breaks.

What has arrived lies in ``<name>.part``, and ``<name>.part.json`` says from where, so that the next attempt – of
this process or of another one, days later – asks only for the rest. Bytes are appended only where that is safe:
the server confirms that its file is still the same (``If-Range``), or the caller will compare a checksum.
"""

import contextlib
import email.utils
import errno
import html
import http.client
import itertools
import logging
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from recheck.errors import UserError
from recheck.files import check_space, disk_errors, read_json, write_json
from recheck.progress import Progress

log = logging.getLogger("recheck")
CHUNK = 1 << 20
LOOK, PAGE = 1 << 9, 1 << 16
"""How much is read to see that something is a web page, and to find out what it says."""
BUSY = {408, 425, 429, 500, 502, 503, 504}
"""Answers that may be another one in a minute."""
QUOTA = (
    "Google Drive says that the file's download quota is exceeded: wait a day, "
    "or copy the file to your own Drive and name that copy in the YAML"
)
VIRUS_SCAN = "Google Drive shows its virus-scan notice instead of the file: name it by `gdrive: <id>` in the YAML"


class SourceFailed(Exception):
    """One source did not give the file; the next one may."""

    def __init__(self, reason: str, status: int | None = None):
        super().__init__(reason)
        self.status = status


class TryAgain(Exception):
    """A failure that may pass: a busy server (``after``: its own wish in seconds), a connection that was cut.

    ``dead``: nothing answered at all, which passes only if something did before.
    """

    def __init__(self, reason: str, after: float = 0, dead: bool = False):
        super().__init__(reason)
        self.after = after
        self.dead = dead


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds: between attempts, for a server's next byte, and at most at its own wish."""

    waits: tuple[float, ...] = (2, 5, 15, 30, 60, 120)
    timeout: float = 60
    longest: float = 300


def part_of(destination: str | Path) -> Path:
    """Where a file lies until it is whole and right."""
    destination = Path(destination)
    return destination.with_name(f"{destination.name}.part")


def discard(part: Path) -> None:
    """Forget what has arrived."""
    part.unlink(missing_ok=True)
    _note_of(part).unlink(missing_ok=True)


def persist(attempt: Callable[[], None], arrived: Callable[[], int], name: str, patience: Patience) -> None:
    """Attempt until it works, with growing waits; they start anew when an attempt brought a good piece of the file."""
    tries, start = 0, arrived()
    while True:
        before = arrived()
        try:
            return attempt()
        except TryAgain as error:
            if arrived() - before >= CHUNK:
                tries = 0
            if tries == len(patience.waits) or (error.dead and arrived() <= start):
                raise SourceFailed(str(error)) from None
            wait = max(patience.waits[tries], min(error.after, patience.longest))
            log.warning("%s: %s; trying again in %.0f s.", name, error, wait)
        time.sleep(wait)
        tries += 1


def download(
    url: str,
    part: Path,
    *,
    size: int | None = None,
    checked: bool = False,
    headers: dict[str, str] | None = None,
    patience: Patience | None = None,
) -> bool:
    """Get an address into ``part``, continuing what lies there; return whether anything was continued.

    ``size`` is the file's size if it is known. ``checked``: a checksum will be compared, so the bytes of another
    mirror may be continued too.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise SourceFailed("only http and https addresses can be fetched")
    patience = patience or Patience()
    job = _Download(url, part, size, checked, headers or {}, patience.timeout)
    persist(job.attempt, lambda: _length(part), job.name, patience)
    return job.continued


def is_page(start: bytes, content_type: str, name: str) -> bool:
    """Is this a web page, where the file ``name`` was asked for? Binary data with a wrong type is not."""
    if name.lower().endswith((".html", ".htm")):
        return False
    if re.match(rb"\s*(<!--.*?-->\s*)*(<!doctype html|<html)", start.removeprefix(b"\xef\xbb\xbf"), re.I | re.S):
        return True
    return "html" in content_type.lower() and b"<" in start and b"\0" not in start[:LOOK]


def explain_page(page: bytes) -> str:
    """What a web page that came instead of a file wants to say."""
    text = page.decode("utf-8", "replace")
    if re.search(r"quota exceeded|too many users have viewed or downloaded", text, re.I):
        return QUOTA
    if re.search(r"virus scan warning|can.t scan this file for viruses", text, re.I):
        return VIRUS_SCAN
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.I | re.S)
    shown = " ".join(html.unescape(title[1]).split())[:80] if title else ""
    return "it sends a web page instead of the file" + (f" (“{shown}”)" if shown else "")


@dataclass
class _Download:
    url: str
    part: Path
    size: int | None
    checked: bool
    headers: dict[str, str]
    timeout: float
    continued: bool = False

    @property
    def name(self) -> str:
        return self.part.name.removesuffix(".part")

    def attempt(self) -> None:
        offset, validator = self._standing()
        self.continued |= offset > 0
        if offset and offset == self.size:
            return
        request = urllib.request.Request(
            self.url, headers={"User-Agent": "recheck", "Accept-Encoding": "identity", **self.headers}
        )
        if offset:
            request.add_header("Range", f"bytes={offset}-")
            if validator:
                request.add_header("If-Range", validator)
        try:
            with _network_errors():
                response = _OPENER.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            with error:
                if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not offset:
                    raise _refusal(error) from None
                whole = _numbers(r"bytes \*/(\d+)", error.headers.get("Content-Range"))
            if whole != [offset] or (self.size is not None and offset != self.size):
                discard(self.part)  # it is longer than the file: that can only be another one's beginning
                self.attempt()
            return
        with response:
            self._receive(response, offset)

    def _standing(self) -> tuple[int, str | None]:
        """How many bytes can be continued, and what the server said of the file they are from."""
        offset, note = _length(self.part), _read_note(self.part)
        validator = note.get("validator") if note.get("url") == self.url else None
        if offset and ((self.size is not None and offset > self.size) or not (validator or self.checked)):
            discard(self.part)
            return 0, None
        return offset, validator

    def _receive(self, response: http.client.HTTPResponse, offset: int) -> None:
        if response.status == HTTPStatus.PARTIAL_CONTENT:
            if _numbers(r"bytes (\d+)-", response.headers.get("Content-Range")) != [offset]:
                discard(self.part)
                raise TryAgain("the server sends another part of the file than it was asked for")
        else:
            offset = 0  # it can't continue, or its file is another one by now
        announced = _numbers(r"(\d+)$", response.headers.get("Content-Length"))
        total = offset + announced[0] if announced else None
        chunks = _chunks(response)
        start = _beginning(chunks, LOOK)
        if is_page(start, response.headers.get("Content-Type", ""), self.name):
            raise SourceFailed(explain_page(start + _beginning(chunks, PAGE)))
        if self.size is not None and total is not None and total != self.size:
            raise SourceFailed(f"expected {self.size} bytes, the server's file has {total}")
        self._write(itertools.chain([start], chunks), offset, total if total is not None else self.size, response)

    def _write(
        self, chunks: Iterator[bytes], offset: int, total: int | None, response: http.client.HTTPResponse
    ) -> None:
        if total is not None:
            check_space(total - offset, self.part, f"Downloading {self.name}")
        bar = Progress(total=total, initial=offset, desc=self.name, unit="B", unit_scale=True)
        received = offset
        with bar, disk_errors(self.part):
            self.part.parent.mkdir(parents=True, exist_ok=True)
            with self.part.open("ab" if offset else "wb") as out:
                if not offset:
                    write_json(_note_of(self.part), {"url": self.url, "validator": _validator(response.headers)})
                for chunk in chunks:
                    out.write(chunk)
                    out.flush()  # a process that is killed has lost nothing
                    received += len(chunk)
                    bar.update(len(chunk))
                    if self.size is not None and received > self.size:
                        break
        if self.size is not None and received > self.size:
            discard(self.part)
            raise SourceFailed(f"it sends more than the expected {self.size} bytes")
        if total is not None and received < total:
            raise TryAgain(f"the connection ended after {received} of {total} bytes")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """To http and https only, and a secret for one host is never shown to another."""

    def redirect_request(self, request, response, code, message, headers, address):
        if urlsplit(address).scheme not in ("http", "https"):
            raise SourceFailed(f"it redirects to {address}, which is neither http nor https")
        following = super().redirect_request(request, response, code, message, headers, address)
        if following is not None and following.host != request.host:
            following.remove_header("Authorization")
        return following


_OPENER = urllib.request.build_opener(_Redirects)


def _refusal(error: urllib.error.HTTPError) -> Exception:
    """What an error status means for the file: another attempt, or another source."""
    said = error.headers.get("X-Error-Message")  # Hugging Face
    reason = f"the server answered {error.code} {error.reason}" + (f" ({said})" if said else "")
    try:
        page = error.read(PAGE)
    except (OSError, http.client.HTTPException):
        page = b""
    if is_page(page, "", "") and explain_page(page) == QUOTA:
        return SourceFailed(QUOTA, error.code)
    if error.code in BUSY:
        return TryAgain(reason, after=_seconds(error.headers.get("Retry-After")))
    return SourceFailed(reason, error.code)


@contextlib.contextmanager
def _network_errors() -> Iterator[None]:
    """Turn what a connection can do into ``TryAgain`` or ``SourceFailed``; answers of a server pass through."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        reason = f"no answer ({str(cause) or type(cause).__name__})"
        if isinstance(cause, (ssl.SSLCertVerificationError, http.client.InvalidURL, ValueError)):
            raise SourceFailed(reason) from None
        unreachable = getattr(cause, "errno", None) in (errno.EHOSTUNREACH, errno.ENETUNREACH)
        dead = unreachable or isinstance(cause, (socket.gaierror, ConnectionRefusedError))
        raise TryAgain(reason, dead=dead) from None


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        with _network_errors():
            chunk = response.read1(CHUNK)
        if not chunk:
            return
        yield chunk


def _beginning(chunks: Iterator[bytes], length: int) -> bytes:
    """At least so many bytes, unless there are fewer."""
    start = b""
    while len(start) < length and (chunk := next(chunks, b"")):
        start += chunk
    return start


def _validator(headers: Message) -> str | None:
    """What identifies the server's file: a strong ETag, or its date."""
    etag = headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")


def _seconds(retry_after: str | None) -> float:
    """The header Retry-After, which is a number of seconds or a date."""
    if not retry_after:
        return 0
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0


def _numbers(pattern: str, header: str | None) -> list[int]:
    found = re.match(pattern, (header or "").strip())
    return [int(number) for number in found.groups()] if found else []


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _note_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _read_note(part: Path) -> dict:
    try:
        note = read_json(_note_of(part))
    except (FileNotFoundError, UserError):
        return {}
    return note if isinstance(note, dict) else {}
