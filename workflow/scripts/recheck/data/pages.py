"""Recognise and explain what a server sends instead of a file: a web page or an error message."""

import codecs
import html
import re

LOOK, PAGE = 1 << 9, 1 << 16
"""Bytes to read to recognise a page, and to find its message."""
MARKUP = (".html", ".htm", ".xhtml", ".xml", ".svg")
DATA = (".json", ".jsonl", ".geojson", ".ipynb")
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # starts like UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
HTML = re.compile(r"\s*(<!--.*?-->\s*)*<(!doctype html|html|(head|title|meta|body|script)[\s>])", re.I | re.S)
XML = re.compile(r"\s*(<\?xml\s|<error[\s>])", re.I)
JSON = re.compile(r'\s*(\{\s*("|\}\s*$)|\[\s*([{"]|\]\s*$))')
LFS = re.compile(r"version https://git-lfs\.github\.com/spec/")
QUOTA = (
    "the file's download quota on Google Drive is exceeded: wait a day, "
    "or copy the file to your own Drive and use that copy in the YAML"
)
VIRUS_SCAN = "Google Drive sent its virus-scan notice instead of the file: use `gdrive: <id>` in the YAML"
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(\x07|\x1b\\|$)|\x1b[ -/]*.?|\x9b[0-?]*[ -/]*[@-~]", re.S
)


def plain(text: str, longest: int = 300) -> str:
    """A server's words as one line that is safe on a terminal: no escape sequences, no control characters."""
    kept = "".join(character if character.isprintable() else " " for character in _ESCAPES.sub("", text[: 1 << 16]))
    kept = " ".join(kept.split())
    return kept if len(kept) <= longest else f"{kept[:longest]}…"


def is_page(start: bytes, content_type: str, name: str) -> bool:
    """Whether the server sent a page or an error message instead of the file ``name``, by its first bytes.

    Binary data is never a page, whatever its type.
    """
    name, content_type, text = name.lower(), content_type.lower(), _text(start)
    if "problem+json" in content_type:
        return True
    if not name.endswith(MARKUP) and (HTML.match(text) or XML.match(text)):
        return True
    if (not name.endswith(DATA) and JSON.match(text)) or LFS.match(text):
        return True
    binary = "\0" in text[:LOOK] or text[:LOOK].count("\ufffd") > LOOK // 20
    return "html" in content_type and not name.endswith(MARKUP) and "<" in text and not binary


def explain_page(page: bytes) -> str:
    """The message of a page that was sent instead of a file."""
    text = _text(page)
    if re.search(r"quota exceeded|too many users have viewed or downloaded", text, re.I):
        return QUOTA
    if re.search(r"virus scan warning|can.t scan this file for viruses", text, re.I):
        return VIRUS_SCAN
    if LFS.match(text):
        return "the server sent a Git LFS pointer instead of the file: use a URL that leads to the file itself"
    kind, said = "a web page", re.search(r"<title[^>]*>(.*?)</title>", text, re.I | re.S)
    if JSON.match(text):
        kind, said = "an error message in JSON", re.search(r'"(?:message|error|detail|title)"\s*:\s*"([^"]*)"', text)
    elif XML.match(text):
        kind, said = "an XML document", re.search(r"<message>(.*?)</message>", text, re.I | re.S)
    shown = plain(html.unescape(said[1]), longest=80) if said else ""
    return f"the server sent {kind} instead of the file" + (f" (“{shown}”)" if shown else "")


def _text(data: bytes) -> str:
    """Text in UTF-8 or UTF-16, with or without a byte order mark."""
    encoding = next((name for bom, name in BOMS.items() if data.startswith(bom)), None)
    if encoding is None:
        encoding = next((name for name, odd in (("utf-16-le", 1), ("utf-16-be", 0)) if _is_utf16(data, odd)), "utf-8")
    width = {"utf-16": 2, "utf-32": 4}.get(encoding[:6], 1)
    return data[: len(data) - len(data) % width].decode(encoding, "replace")


def _is_utf16(data: bytes, odd: int) -> bool:
    """Whether every second byte is zero, and the others are text."""
    zeros, letters = data[odd:LOOK:2], data[1 - odd : LOOK : 2]
    return len(letters) > 3 and not any(zeros) and 0 not in letters and letters.lstrip()[:1] in (b"<", b"{", b"[")
