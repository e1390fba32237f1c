"""Download one file over HTTP and resume whenever the connection breaks.

Received bytes are kept in ``<name>.part``, and ``<name>.part.json`` records their source. The next attempt, by this
process or by another one days later, requests only the rest. Bytes are appended only when that is safe: the server
confirms that its file is unchanged (``If-Range``), or the caller will compare a checksum.

Nothing that a server says is trusted: every answer is compared with what was requested, every wait and every size is
bounded (``patience``), and its words are cleaned before they reach the terminal.
"""

import contextlib
import email.utils
import errno
import functools
import http.client
import io
import itertools
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from recheck.data.pages import LOOK, PAGE, QUOTA, explain_page, is_page, plain
from recheck.data.patience import CHUNK, Patience, SourceFailed, TryAgain, Watch, persist
from recheck.errors import UserError
from recheck.files import check_space, disk_errors, free_space, read_json, write_json
from recheck.progress import Progress

BUSY = {202, 408, 425, 429, 500, 502, 503, 504}
"""HTTP statuses worth a retry."""
FILE = {200, 203, 206}
"""HTTP statuses of an answer with the file."""
LARGEST_UNKNOWN = 1 << 30
"""Maximum size in bytes of a file whose size neither the YAML nor the server gives."""
ON_ANY_HOST = {"User-agent", "Accept-encoding", "Range", "If-range"}
"""Headers that are sent after a redirect to another host, or from https to http; others may be credentials."""


def part_of(destination: str | Path) -> Path:
    """The path of an unfinished download."""
    destination = Path(destination)
    return destination.with_name(f"{destination.name}.part")


def discard(part: Path) -> None:
    """Delete an unfinished download."""
    part.unlink(missing_ok=True)
    _note_of(part).unlink(missing_ok=True)


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
    try:
        supported = urlsplit(url).scheme in ("http", "https")
    except ValueError as error:
        raise SourceFailed(f"not a valid URL ({error})") from None
    if not supported:
        raise SourceFailed("only http and https URLs are supported")
    job = _Download(url, part, size, checked, headers or {}, Watch(patience or Patience()))
    job.watch.resume(job.standing()[0])
    persist(job.attempt, lambda: _length(part), job.name, job.watch)
    return job.resumed


@dataclass
class _Download:
    url: str
    part: Path
    size: int | None
    checked: bool
    headers: dict[str, str]
    watch: Watch
    resumed: bool = False

    @property
    def name(self) -> str:
        return self.part.name.removesuffix(".part")

    def attempt(self) -> None:
        offset, validator = self.standing()
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
                response = _opener(self.watch).open(request, timeout=self.watch.patience.timeout)
        except urllib.error.HTTPError as error:
            with error:
                if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not offset:
                    raise _refusal(error) from None
                whole = _numbers(r"bytes \*/(\d{1,19})", error.headers.get("Content-Range"))
            announced = self.size if self.size is not None else _read_note(self.part).get("total")
            if whole != [offset] or announced not in (None, offset):
                discard(self.part)  # not the server's file, or not all of it
                self.attempt()
            return
        with response:
            self.watch.answering()
            self._receive(response, offset)

    def standing(self) -> tuple[int, str | None]:
        """The number of bytes to resume from, and the server's validator of the file that they belong to.

        Bytes that can't be resumed are discarded.
        """
        offset, note = _length(self.part), _read_note(self.part)
        validator = note.get("validator") if note.get("url") == self.url else None
        if offset and ((self.size is not None and offset > self.size) or not (validator or self.checked)):
            discard(self.part)
            return 0, None
        return offset, validator

    def _receive(self, response: http.client.HTTPResponse, offset: int) -> None:
        if response.status not in FILE:
            raise _refusal(response)
        for header, allowed in (("Content-Encoding", ("", "identity")), ("Transfer-Encoding", ("", "chunked"))):
            encoding = plain(", ".join(response.headers.get_all(header, [])))
            if encoding.lower() not in allowed and not self.checked:
                raise SourceFailed(f"the server sent the file encoded ({header}: {encoding})")
        if response.status == HTTPStatus.PARTIAL_CONTENT:
            total = self._continued(response, offset)
        else:
            offset, total = 0, response.length  # the server can't resume, or its file has changed
        chunks = _chunks(response)
        start = _beginning(chunks, LOOK)
        if not offset and is_page(start, response.headers.get("Content-Type", ""), self.name):
            raise SourceFailed(explain_page(start + _beginning(chunks, PAGE)))
        if self.size is not None and total is not None and total != self.size:
            raise SourceFailed(f"expected {self.size} bytes, but the server's file has {total}")
        self._write(itertools.chain([start], chunks), offset, total if total is not None else self.size, response)

    def _continued(self, response: http.client.HTTPResponse, offset: int) -> int:
        """The size of the whole file, from a partial answer, which must match the request and the first answer."""
        pattern = r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)$"
        match = re.match(pattern, response.headers.get("Content-Range", "").strip())
        first, last = (int(match[1]), int(match[2])) if match else (-1, -1)
        note, now = _read_note(self.part), _validator(response.headers)
        # without a size, an answer with only the beginning of the rest would look complete
        total = int(match[3]) if match and match[3] != "*" else self.size or (note.get("total") if offset else None)
        if match and not isinstance(total, int):
            discard(self.part)
            raise TryAgain("the server sent a part of the file and does not say how long the file is")
        too_long = response.length is not None and response.length > last + 1 - first
        if not match or first != offset or not first <= last < total or too_long:
            discard(self.part)
            raise TryAgain("the server sent a different part of the file than requested")
        known = note.get("validator") if note.get("url") == self.url else None
        same_kind = known and now and known.startswith('"') == now.startswith('"')
        if (same_kind and known != now) or (known and note.get("total") not in (None, total)):
            discard(self.part)
            raise TryAgain("the server's file has changed since the download began")
        return total

    def _most(self, total: int | None, offset: int) -> int:
        """The maximum number of bytes: the known or announced size, else LARGEST_UNKNOWN or what fits on the disk."""
        if self.size is not None:
            check_space(self.size - offset, self.part, f"Downloading {self.name}")
            return self.size
        free = offset + free_space(self.part)
        if total is not None and total > free:
            raise SourceFailed(
                f"the server announces {total:,} bytes, but only {free:,} are free on the disk: if the size is right, "
                "free some space"
            )
        return total if total is not None else min(LARGEST_UNKNOWN, free * 99 // 100)  # the note needs space, too

    def _write(
        self, chunks: Iterator[bytes], offset: int, total: int | None, response: http.client.HTTPResponse
    ) -> None:
        most = self._most(total, offset)
        bar = Progress(total=total, initial=offset, desc=self.name, unit="B", unit_scale=True)
        received = offset
        with bar, disk_errors(self.part):
            self.part.parent.mkdir(parents=True, exist_ok=True)
            with self.part.open("ab" if offset else "wb") as out:
                if not offset:
                    note = {"url": self.url, "validator": _validator(response.headers), "total": total}
                    write_json(_note_of(self.part), note)
                for chunk in chunks:
                    if received + len(chunk) > most:
                        received += len(chunk)
                        break
                    out.write(chunk)
                    out.flush()  # so that a killed process loses nothing
                    received += len(chunk)
                    self.watch.arrived(len(chunk), received)
                    bar.update(len(chunk))
        if received > most:
            discard(self.part)
            raise SourceFailed(self._too_long(total, most))
        if total is not None and received < total:
            raise TryAgain(f"the connection ended after {received} of {total} bytes")
        if not received:
            discard(self.part)
            raise SourceFailed("the server sent an empty file")

    def _too_long(self, total: int | None, most: int) -> str:
        if total is not None:
            return f"expected {total} bytes, but the server sent more"
        if most < LARGEST_UNKNOWN:
            return f"the server sent more than the {most:,} bytes that are free on the disk: free some space"
        return (
            f"the server does not say how long the file is and sent more than {most:,} bytes: "
            "if that is right, add `size` to the file in the YAML"
        )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https only, and never send credentials to another host or without encryption."""

    def redirect_request(self, request, response, code, message, headers, address):
        if urlsplit(address).scheme not in ("http", "https"):
            raise SourceFailed(f"the server redirects to {plain(address)}, which is neither http nor https")
        following = super().redirect_request(request, response, code, message, headers, address)
        if following is not None and (
            following.host != request.host or (request.type == "https" and following.type != "https")
        ):
            for header in set(following.headers) - ON_ANY_HOST:
                following.remove_header(header)
        return following


class _Watched(io.RawIOBase):
    """The bytes of a connection. http.client would wait for ever for a server that sends a header byte by byte."""

    def __init__(self, raw: io.RawIOBase, watch: Watch):
        self.raw, self.watch = raw, watch

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:
        count = self.raw.readinto(buffer)
        self.watch.heard(count or 0)
        return count

    def close(self) -> None:
        self.raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, watch: Watch, *arguments, **options):
        super().__init__(*arguments, **options)
        watch.answering()
        self.fp = io.BufferedReader(_Watched(self.fp.detach(), watch))


def _opener(watch: Watch) -> urllib.request.OpenerDirector:
    """An opener whose connections are watched from the first byte of the answer."""

    def connection(kind: type, host: str, **options) -> http.client.HTTPConnection:
        client = kind(host, **options)
        client.response_class = functools.partial(_Response, watch)
        return client

    class Http(urllib.request.HTTPHandler):
        def http_open(self, request):
            return self.do_open(functools.partial(connection, http.client.HTTPConnection), request)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, request):
            return self.do_open(functools.partial(connection, http.client.HTTPSConnection), request)

    return urllib.request.build_opener(_Redirects, Http, Https)


def _refusal(answer: urllib.error.HTTPError | http.client.HTTPResponse) -> Exception:
    """The exception for an HTTP status without a file: retry this source, or try the next."""
    message = plain(answer.headers.get("X-Error-Message", ""))  # Hugging Face
    reason = f"the server answered {answer.status} {plain(answer.reason)}" + (f" ({message})" if message else "")
    try:
        page = answer.read(PAGE)
    except (OSError, http.client.HTTPException, TryAgain, SourceFailed):
        page = b""
    if is_page(page, "", "") and explain_page(page) == QUOTA:
        return SourceFailed(QUOTA, answer.status)
    if answer.status in BUSY:
        return TryAgain(reason, after=_seconds(answer.headers.get("Retry-After")))
    return SourceFailed(reason, answer.status)


@contextlib.contextmanager
def _network_errors() -> Iterator[None]:
    """Turn connection errors into ``TryAgain`` or ``SourceFailed``; HTTP errors pass through."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        reason = f"no answer ({plain(str(cause)) or type(cause).__name__})"
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
    chosen = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
    return chosen if chosen and chosen.isprintable() and len(chosen) <= LOOK else None


def _seconds(retry_after: str | None) -> float:
    """The seconds of a Retry-After header, which is a number or a date."""
    if not retry_after:
        return 0
    if re.fullmatch(r"\s*\d{1,9}\s*", retry_after):
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return 0


def _numbers(pattern: str, header: str | None) -> list[int]:
    match = re.match(pattern, (header or "").strip())
    return [int(number) for number in match.groups()] if match else []


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _note_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _read_note(part: Path) -> dict:
    """What is known about an unfinished download; entries that this module did not write are left out."""
    try:
        note = read_json(_note_of(part))
    except (FileNotFoundError, UserError):
        return {}
    kinds = {"url": str, "validator": str, "total": int}
    return {key: note[key] for key, kind in kinds.items() if isinstance(note, dict) and type(note.get(key)) is kind}
