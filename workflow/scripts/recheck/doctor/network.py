"""Check which hosts of the downloads answer. Without a network, only files that are already on the disk can be used."""

import http.client
import os
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recheck.doctor.finding import Finding, note, ok
from recheck.study.yaml import read_yaml

SECONDS = 5.0
DROP = "downloads from there will fail: put the files into resources/drop (docs/datasets.md)"


def hosts(files: Iterable[Path]) -> dict[str, str]:
    """Name → address of every host in the sources of datasets and weights, except the package index that pip uses."""
    addresses: dict[str, str] = {}
    for source in (source for file in files for source in _sources(read_yaml(file))):
        if "url" in source:
            parts = urlsplit(source["url"])
            addresses.setdefault(parts.netloc, f"{parts.scheme}://{parts.netloc}/")
        elif "gdrive" in source:
            addresses["Google Drive"] = "https://drive.google.com/"
        elif "huggingface" in source:
            addresses["Hugging Face"] = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/") + "/"
        elif "npm" in source:
            addresses["npm"] = ""  # looked up by `_ask`, in a thread
    return dict(sorted(addresses.items(), key=lambda item: item[0].lower()))


def _sources(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        named = value.get("from")
        yield from (source for source in (named if isinstance(named, list) else []) if isinstance(source, dict))
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _sources(item)


def answers(addresses: dict[str, str], seconds: float = SECONDS) -> Iterator[Finding]:
    """One finding for the hosts that answer, and one per reason for those that do not; all are asked at once."""
    reasons: dict[str, str] = {}
    threads = []
    for name, address in addresses.items():
        # A daemon: looking up a name has no time limit, and must not keep the doctor waiting.
        thread = threading.Thread(target=_ask, args=(name, address, seconds, reasons), daemon=True)
        thread.start()
        threads.append((name, thread))
    last = time.monotonic() + seconds + 1
    for _, thread in threads:
        thread.join(max(0.0, last - time.monotonic()))
    reasons |= {name: f"no answer within {seconds:g} s" for name, thread in threads if thread.is_alive()}
    if reached := [name for name, _ in threads if name not in reasons]:
        yield ok("network", f"reached {', '.join(reached)}")
    for reason in dict.fromkeys(reasons[name] for name, _ in threads if name in reasons):
        names = ", ".join(name for name, _ in threads if reasons.get(name) == reason)
        yield note("network", f"not reached: {names} ({reason})", DROP)


def _ask(name: str, address: str, seconds: float, reasons: dict[str, str]) -> None:
    """Store the reason if a host does not answer. Any answer counts, even “page not found”."""
    try:
        request = urllib.request.Request(address or _registry(seconds), method="HEAD")
        with urllib.request.urlopen(request, timeout=seconds):
            pass
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            reasons[name] = "the proxy asks for a password"
    except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
        reasons[name] = str(getattr(error, "reason", error)) or type(error).__name__


def _registry(seconds: float) -> str:
    """The address that npm fetches from."""
    if not shutil.which("npm"):
        raise ValueError("the command 'npm' was not found; it comes with Node.js")
    command = ["npm", "config", "get", "registry"]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True).stdout.strip()
