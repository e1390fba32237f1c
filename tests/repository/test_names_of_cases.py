"""Every test process must give a parametrised case the same name, or the processes can't share the tests."""

import gzip
import re

import pytest


@pytest.mark.parametrize("packed", [gzip.compress(b"letters")])
def test_bytes_are_named_by_their_argument(request, packed):
    """The bytes contain the time at which this file was imported."""
    assert request.node.name == "test_bytes_are_named_by_their_argument[packed]"


def test_no_name_contains_bytes_or_an_address(request):
    for item in request.session.items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        texts = [repr(value)[2:-1] for value in values if isinstance(value, bytes) and value]
        assert not any(text in item.name for text in texts if len(text) > 3), item.nodeid
        assert not re.search(r"\b0x[0-9a-f]{6,}", item.name), item.nodeid
