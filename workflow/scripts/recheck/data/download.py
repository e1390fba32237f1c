"""Download one file over HTTP and resume whenever the connection breaks.

Received bytes are kept in ``<name>.part``, and ``<name>.part.json`` records their source. The next attempt, by this
process or by another one days later, requests only the rest. Bytes are appended only when that is safe: the server
confirms that its file is unchanged (``If-Range``), or the caller will compare a checksum.
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
"""Bytes to read to recognise a web page, and to find its message."""
BUSY = {408, 425, 429, 500, 502, 503, 504}
"""HTTP statuses worth a retry."""
QUOTA = (
    "the file's download quota on Google Drive is exceeded: wait a day, "
    "or copy the file to your own Drive and use that copy in the YAML"
)
VIRUS_SCAN = "Google Drive sent its virus-scan notice instead of the file: use `gdrive: <id>` in the YAML"


class SourceFailed(Exception):
    """One source could not deliver the file; another one might."""

    def __init__(self, reason: str, status: int | None = None):
        super().__init__(reason)
        self.status = status


class TryAgain(Exception):
    """A failure worth a retry: a busy server (``after``: the delay it asks for, in seconds) or a lost connection.

    ``dead``: nothing answered at all; worth a retry only if some bytes have arrived before.
    """

    def __init__(self, reason: str, after: float = 0, dead: bool = False):
        super().__init__(reason)
        self.after = after
        self.dead = dead


@dataclass(frozen=True)
class Patience:
    """Waiting times in seconds: between attempts, for a server's next byte, and the longest Retry-After to obey."""

    waits: tuple[float, ...] = (2, 5, 15, 30, 60, 120)
    timeout: float = 60
    longest: float = 300


def part_of(destination: str | Path) -> Path:
    """The path of an unfinished download."""
    destination = Path(destination)
    return destination.with_name(f"{destination.name}.part")


def discard(part: Path) -> None:
    """Delete an unfinished download."""
    part.unlink(missing_ok=True)
    _note_of(part).unlink(missing_ok=True)


def persist(attempt: Callable[[], None], arrived: Callable[[], int], name: str, patience: Patience) -> None:
    """Retry until the attempt succeeds, with growing waits that restart whenever at least one chunk has arrived."""
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
            log.warning("%s: %s; retrying in %.0f s.", name, error, wait)
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
    """Download a URL to ``part``, resuming an earlier attempt; return whether anything was resumed.

    ``size`` is the file's size, if known. ``checked`` says that the caller will compare a checksum, so that bytes from
    another mirror may be resumed too.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise SourceFailed("only http and https URLs are supported")
    patience = patience or Patience()
    job = _Download(url, part, size, checked, headers or {}, patience.timeout)
    persist(job.attempt, lambda: _length(part), job.name, patience)
    return job.resumed


def is_page(start: bytes, content_type: str, name: str) -> bool:
    """Whether the server sent a web page instead of the file ``name``; binary data of type HTML is not a page."""
    if name.lower().endswith((".html", ".htm")):
        return False
    if re.match(rb"\s*(<!--.*?-->\s*)*(<!doctype html|<html)", start.removeprefix(b"\xef\xbb\xbf"), re.I | re.S):
        return True
    return "html" in content_type.lower() and b"<" in start and b"\0" not in start[:LOOK]


def explain_page(page: bytes) -> str:
    """The message of a web page that was sent instead of a file."""
    text = page.decode("utf-8", "replace")
    if re.search(r"quota exceeded|too many users have viewed or downloaded", text, re.I):
        return QUOTA
    if re.search(r"virus scan warning|can.t scan this file for viruses", text, re.I):
        return VIRUS_SCAN
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.I | re.S)
    shown = " ".join(html.unescape(title[1]).split())[:80] if title else ""
    return "the server sent a web page instead of the file" + (f" (“{shown}”)" if shown else "")


@dataclass
class _Download:
    url: str
    part: Path
    size: int | None
    checked: bool
    headers: dict[str, str]
    timeout: float
    resumed: bool = False

    @property
    def name(self) -> str:
        return self.part.name.removesuffix(".part")

    def attempt(self) -> None:
        offset, validator = self._standing()
        self.resumed |= offset > 0
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
                discard(self.part)  # longer than the server's file, so it must be from another file
                self.attempt()
            return
        with response:
            self._receive(response, offset)

    def _standing(self) -> tuple[int, str | None]:
        """The number of bytes to resume from, and the server's validator of the file that they belong to."""
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
                raise TryAgain("the server sent a different part of the file than requested")
        else:
            offset = 0  # the server can't resume, or its file has changed
        announced = _numbers(r"(\d+)$", response.headers.get("Content-Length"))
        total = offset + announced[0] if announced else None
        chunks = _chunks(response)
        start = _beginning(chunks, LOOK)
        if is_page(start, response.headers.get("Content-Type", ""), self.name):
            raise SourceFailed(explain_page(start + _beginning(chunks, PAGE)))
        if self.size is not None and total is not None and total != self.size:
            raise SourceFailed(f"expected {self.size} bytes, but the server's file has {total}")
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
                    out.flush()  # so that a killed process loses nothing
                    received += len(chunk)
                    bar.update(len(chunk))
                    if self.size is not None and received > self.size:
                        break
        if self.size is not None and received > self.size:
            discard(self.part)
            raise SourceFailed(f"expected {self.size} bytes, but the server sent more")
        if total is not None and received < total:
            raise TryAgain(f"the connection ended after {received} of {total} bytes")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https only, and never send one host's credentials to another."""

    def redirect_request(self, request, response, code, message, headers, address):
        if urlsplit(address).scheme not in ("http", "https"):
            raise SourceFailed(f"the server redirects to {address}, which is neither http nor https")
        following = super().redirect_request(request, response, code, message, headers, address)
        if following is not None and following.host != request.host:
            following.remove_header("Authorization")
        return following


_OPENER = urllib.request.build_opener(_Redirects)


def _refusal(error: urllib.error.HTTPError) -> Exception:
    """The exception for an HTTP error status: retry this source, or try the next."""
    message = error.headers.get("X-Error-Message")  # Hugging Face
    reason = f"the server answered {error.code} {error.reason}" + (f" ({message})" if message else "")
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
    """Turn connection errors into ``TryAgain`` or ``SourceFailed``; HTTP errors pass through."""
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
    """At least ``length`` bytes from the chunks, or all if there are fewer."""
    start = b""
    while len(start) < length and (chunk := next(chunks, b"")):
        start += chunk
    return start


def _validator(headers: Message) -> str | None:
    """The header that identifies the server's file: a strong ETag, or its modification date."""
    etag = headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")


def _seconds(retry_after: str | None) -> float:
    """The seconds of a Retry-After header, which is a number or a date."""
    if not retry_after:
        return 0
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0


def _numbers(pattern: str, header: str | None) -> list[int]:
    match = re.match(pattern, (header or "").strip())
    return [int(number) for number in match.groups()] if match else []


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
