"""What servers send instead of files, and their words on a terminal."""

import pytest

from recheck.data.pages import explain_page, is_page, plain


@pytest.mark.parametrize(
    ("start", "content_type", "name", "page"),
    [
        (b"\xef\xbb\xbf<!doctype HTML>", "", "a.zip", True),
        (b"<html>", "text/html", "a.html", False),
        (b"PK\3\4<\0\0", "text/html", "a.zip", False),
        (b"<?xml version='1.0'?><svg>", "image/svg+xml", "a.svg", False),
        (b"<?xml version='1.0'?><Error>", "application/xml", "a.tgz", True),
        (b"<Error><Code>NoSuchKey</Code>", "", "list.txt", True),
        (b"1 bicycle_final/1.JPG", "text/html", "list.txt", False),
        (b"52712\nimage_name item_id", "application/json", "list.txt", False),
        (b'{"message": "Not Found"}', "text/plain", "list.txt", True),
        (b'{"message": "Not Found"}', "application/json", "icons.json", False),
        (b'{"message": "Not Found"}', "application/problem+json", "icons.json", True),
        ("<html>".encode("utf-16"), "", "a.zip", True),
        ("<!DOCTYPE html>".encode("utf-16-be"), "", "a.zip", True),
        ('{"error": 1}'.encode("utf-16-le"), "", "a.zip", True),
        ("<html>".encode("utf-32"), "", "a.zip", True),
        (b"<head><title>Moved</title>", "", "a.zip", True),
        (b"<script>location = '/login'</script>", "", "a.zip", True),
        (b"<headers>", "", "a.bin", False),
        (b"{}\n", "", "a.zip", True),
        (b"[]", "", "a.zip", True),
        (b"[] and more", "", "a.txt", False),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "", "list.json", True),
        (b"<\0\0\0<\0\0\0", "", "a.bin", False),
        (b"", "text/html", "a.zip", False),
        (bytes(range(1, 256)) * 2, "text/html", "a.tgz", False),
        ("<p>gelöscht".encode("latin-1"), "text/html", "a.tgz", True),
    ],
)  # fmt: skip
def test_pages_are_told_from_files(start, content_type, name, page):
    assert is_page(start, content_type, name) == page


def test_the_message_of_a_page():
    assert explain_page(b"<html><title>a &amp;\n b\x1b[31m</title>").endswith(
        "a web page instead of the file (“a & b”)"
    )
    assert explain_page(b'{"detail": "login"}').endswith("an error message in JSON instead of the file (“login”)")
    assert explain_page(b"version https://git-lfs.github.com/spec/v1\n").startswith("the server sent a Git LFS pointer")
    assert explain_page(b"<?xml ?>").endswith("an XML document instead of the file")


def test_a_server_cannot_write_to_the_terminal():
    assert plain("a\x1b[1;31mb\x1b]0;title\x07c\x1bPx\x1b\\d\x9b2Je\r\n\tf\x00\x7f\u202eg") == "abcde f g"
    assert plain("x" * 1000) == "x" * 300 + "…"
    assert plain("\x1b" * 100_000) == ""
    assert plain("\ud800 \x1b]never closed") == ""
