"""Downloads from Google Drive, GitHub and Hugging Face, whose files need more than a URL.

gdown and huggingface_hub handle URLs, confirmation pages and logins. Their exceptions become ``SourceFailed`` (try the
next source) or ``TryAgain`` (retry this one).
"""

import contextlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recheck.data.download import BUSY, LARGEST_UNKNOWN, download
from recheck.data.pages import QUOTA, explain_page, is_page, plain
from recheck.data.patience import CHUNK, Patience, SourceFailed, TryAgain, Watch, persist
from recheck.files import check_space, disk_errors, free_space
from recheck.progress import Progress

GITHUB = "https://api.github.com"
NOT_SHARED = "Google Drive refuses the file: it was removed, is not public, or was downloaded too often"
NO_FOLDER = "Google Drive refuses to list the folder: it was removed, is not public, or was opened too often"


def from_gdrive(identifier: str, part: Path, size: int | None, patience: Patience) -> bool:
    """Download a Google Drive file by its id with gdown; return whether an earlier attempt was resumed.

    gdown keeps received bytes in its own file (``.<name>.<id><8 characters>.part``) and resumes from it.
    """
    name = part.name.removesuffix(".part")
    target = part.with_name(f".{name}.{identifier}")
    with disk_errors(part):
        part.parent.mkdir(parents=True, exist_ok=True)
        watch = Watch(patience)
        watch.resume(_arrived(target))
        persist(lambda: _gdown(identifier, target, name, size, watch), lambda: _arrived(target), name, watch)
        with target.open("rb") as file:
            start = file.read(CHUNK)
        if not start or is_page(start, "", name):
            target.unlink()
            raise SourceFailed(explain_page(start) if start else "Google Drive sent an empty file")
        target.replace(part)
    return watch.start > 0


def _gdown(identifier: str, target: Path, name: str, size: int | None, watch: Watch) -> None:
    import gdown  # loads an HTML parser, so only when needed

    _tidy(target, size)
    if target.exists():
        return
    alarm = _Alarm(watch.patience)
    with (
        alarm,
        _gdown_errors(alarm),
        Progress(initial=_arrived(target), desc=name, unit="B", unit_scale=True) as bar,
    ):
        try:
            gdown.download(
                id=identifier,
                output=str(target),
                quiet=True,
                use_cookies=False,
                resume=True,
                progress=_received(bar, target, name, size, watch, alarm),
                timeout=watch.patience.timeout,
                cancel=alarm.cancelled,
            )
        except gdown.DownloadError as error:
            if "byte range" in str(error):  # the received bytes can't be resumed
                _drop(target)
            raise


class _Alarm:
    """Cancels gdown if it follows a confirmation page that leads to itself, or waits for single bytes, without end.

    gdown reports at least every CHUNK bytes, so the next report may take as long as CHUNK bytes at the slowest speed.
    """

    def __init__(self, patience: Patience):
        self.cancelled, self.receiving = threading.Event(), False
        self.first, self.next = 2 * patience.timeout, max(2 * patience.timeout, CHUNK / patience.slowest)
        self.timer: threading.Timer | None = None

    def set(self, seconds: float) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = threading.Timer(seconds, self.cancelled.set)
        self.timer.daemon = True
        self.timer.start()

    def received(self) -> None:
        self.receiving = True
        self.set(self.next)

    def __enter__(self) -> "_Alarm":
        self.set(self.first)
        return self

    def __exit__(self, *error) -> None:
        self.timer.cancel()


@contextlib.contextmanager
def _gdown_errors(alarm: _Alarm | None = None) -> Iterator[None]:
    """Turn gdown's exceptions into ``SourceFailed`` or ``TryAgain``."""
    import gdown
    from requests import exceptions

    try:
        yield
    except gdown.DownloadCancelled:
        if alarm is not None and alarm.receiving:
            raise TryAgain(f"fewer than {CHUNK:,} bytes came from Google Drive in {alarm.next:.0f} s") from None
        raise SourceFailed("Google Drive sends only web pages, not the file") from None
    except gdown.FileURLRetrievalError as error:
        in_demand = any(words in str(error).lower() for words in ("too many users", "quota"))
        raise SourceFailed(QUOTA if in_demand else NOT_SHARED) from None
    except gdown.DownloadError as error:
        raise TryAgain(f"gdown: {plain(str(error).splitlines()[0]).rstrip('.')}") from None
    except exceptions.HTTPError as error:
        answer = f"Google Drive answered {error.response.status_code} {plain(str(error.response.reason))}"
        if error.response.status_code in BUSY:
            raise TryAgain(answer) from None
        raise SourceFailed(answer) from None
    except (exceptions.Timeout, exceptions.ChunkedEncodingError) as error:
        raise TryAgain(f"the connection to Google Drive was lost ({plain(str(error))})") from None
    except exceptions.RequestException as error:
        raise TryAgain(f"no answer from Google Drive ({plain(str(error))})", dead=True) from None
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise SourceFailed(f"gdown cannot interpret Google Drive's answer ({plain(repr(error))})") from None


def gdrive_files(identifier: str, patience: Patience) -> dict[str, str]:
    """Path → id of all files below a Google Drive folder; nothing is downloaded."""
    ids: dict[str, str] = {}

    def look() -> None:
        import gdown

        with _gdown_errors():
            try:
                listed = gdown.download_folder(
                    id=identifier, quiet=True, use_cookies=False, skip_download=True, timeout=patience.timeout
                )
            except gdown.DownloadError as error:
                status = re.search(r"status code (\d+)", str(error))
                if status and int(status[1]) in BUSY:
                    raise
                raise SourceFailed(NO_FOLDER) from None
        ids.update({Path(file.path).as_posix(): file.id for file in listed})

    persist(look, lambda: 0, f"folder {identifier}", Watch(patience))
    return ids


def github_files(release: str, patience: Patience) -> dict[str, dict[str, Any]]:
    """Name → id, url and size of all files of a GitHub release, ``owner/repository@tag``; nothing is downloaded."""
    repository, _, tag = release.partition("@")
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder, "release.json.part")
        download(f"{GITHUB}/repos/{repository}/releases/tags/{tag}", part, patience=patience)
        try:
            assets = json.loads(part.read_bytes())["assets"]
            return {
                str(asset["name"]): {
                    "id": int(asset["id"]),
                    "url": str(asset["browser_download_url"]),
                    "size": int(asset["size"]),
                }
                for asset in assets
            }
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SourceFailed(f"GitHub's list of the release cannot be read ({type(error).__name__})") from None


def _received(
    bar: Progress, target: Path, name: str, size: int | None, watch: Watch, alarm: _Alarm
) -> Callable[[int, int | None], None]:
    """A callback for every received chunk; its exceptions end the download."""
    most = size if size is not None else min(LARGEST_UNKNOWN, _arrived(target) + free_space(target))

    def received(position: int, total: int | None) -> None:
        alarm.received()
        watch.arrived(position - bar.n, position)
        watch.check_time()
        if bar.total is None and total is not None:
            if size is not None and total != size:
                raise SourceFailed(f"expected {size} bytes, but the file on Google Drive has {total}")
            if size is None and total - position > free_space(target):
                raise SourceFailed(f"Google Drive announces {total:,} bytes, more than is free on the disk")
            check_space(total - position, target, f"Downloading {name}")
            bar.total = total
        if position > (most if bar.total is None or size is not None else bar.total):
            _drop(target)
            raise SourceFailed(f"expected at most {most} bytes, but Google Drive sent more")
        bar.update(position - bar.n)

    return received


def _parts(target: Path) -> list[Path]:
    """gdown's unfinished files, the largest first."""
    length = len(target.name) + 8 + len(".part")
    paths = [path for path in target.parent.iterdir() if path.name.startswith(target.name) and len(path.name) == length]
    return sorted(paths, key=lambda path: -path.stat().st_size)


def _arrived(target: Path) -> int:
    return max((path.stat().st_size for path in [*_parts(target), target] if path.exists()), default=0)


def _drop(target: Path) -> None:
    for path in _parts(target):
        path.unlink()


def _tidy(target: Path, size: int | None) -> None:
    """Keep at most one unfinished file: gdown refuses several, can't resume a complete one, and trusts any size."""
    for number, path in enumerate(_parts(target)):
        if number or (size is not None and path.stat().st_size > size):
            path.unlink()
        elif path.stat().st_size == size:
            path.replace(target)


def from_huggingface(source: dict, part: Path, size: int | None, checked: bool, patience: Patience) -> bool:
    """Download a file of a Hugging Face repository, from the hub or the mirror set by ``HF_ENDPOINT``.

    huggingface_hub provides the URL and the user's login. Its own download would start over after a kill, so
    :func:`download` fetches the bytes. Returns whether an earlier attempt was resumed.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    repository, kind = source["huggingface"], source.get("repo_type", "dataset")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    try:
        url = hf_hub_url(repository, source["file"], repo_type=kind, revision=source.get("revision"), endpoint=endpoint)
        headers = {key.title(): value for key, value in build_hf_headers(library_name="recheck").items()}
        return download(url, part, size=size, checked=checked, headers=headers, patience=patience)
    except SourceFailed as error:
        if error.status not in (401, 403):
            raise
        page = f"{endpoint}/{'datasets/' if kind == 'dataset' else ''}{repository}"
        raise SourceFailed(
            f"{error}: accept the terms on {page} in a browser, then run `hf auth login` or set HF_TOKEN", error.status
        ) from None
    except ValueError as error:
        raise SourceFailed(f"not a valid name on the Hugging Face hub ({error})") from None
