"""Every test is in the order once, and every process starts with long tests."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from support.suite.order import is_long, ordered


@dataclass(frozen=True)
class Item:
    path: Path
    number: int
    slow: bool = False

    def get_closest_marker(self, name):
        return (self.slow and name == "slow") or None


FILES = {"unit/test_a.py": 50, "workflow/test_b.py": 9, "faults/test_c.py": 6, "workflow/test_slurm.py": 2}
ITEMS = [Item(Path(name), number) for name, count in FILES.items() for number in range(count)]
ITEMS += [Item(Path("unit/test_d.py"), number, slow=True) for number in range(4)]


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_process_starts_with_long_tests(processes):
    order = ordered(ITEMS, processes)
    assert sorted(order, key=ITEMS.index) == ITEMS
    assert order[0].path.name == "test_slurm.py"
    left = order
    for process in range(processes):
        size = len(left) // (processes - process)
        share, left = [is_long(item) for item in left[:size]], left[size:]
        assert share[0] and share == sorted(share, reverse=True)


def test_long_tests_of_a_file_stay_together():
    order = [item for item in ordered(ITEMS, 3) if item.path.name == "test_b.py"]
    places = [ordered(ITEMS, 3).index(item) for item in order]
    assert places == list(range(places[0], places[0] + 9))
