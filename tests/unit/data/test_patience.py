"""Every download ends: attempts, progress and time are bounded. A simulated clock decides, never real seconds."""

import pytest

from recheck.data.patience import CHUNK, NOISE, Patience, SourceFailed, TryAgain, Watch, persist


class Attempts:
    """Each attempt leaves the next of these lengths behind and fails."""

    def __init__(self, *lengths):
        self.lengths, self.made, self.length = lengths, 0, 0

    def __call__(self):
        self.length = self.lengths[self.made % len(self.lengths)]
        self.made += 1
        raise TryAgain("lost")

    def run(self, **patience):
        with pytest.raises(SourceFailed) as raised:
            persist(self, lambda: self.length, "file", Watch(Patience(**patience)))
        return str(raised.value)


def test_the_number_of_attempts_is_bounded_even_with_progress():
    attempts = Attempts(*[number * CHUNK for number in range(1, 1000)])
    assert attempts.run(waits=(0,), attempts=20) == "lost; attempt 20 was the last"
    assert attempts.made == 20


def test_bytes_that_were_lost_and_came_again_are_no_progress():
    attempts = Attempts(5 * CHUNK, 0)
    assert attempts.run(waits=(0,) * 3) == "lost"
    assert attempts.made == 4, "only the first attempt made progress"


def test_small_steps_add_up():
    attempts = Attempts(*[number * CHUNK // 2 for number in range(1, 9)], 4 * CHUNK)
    attempts.run(waits=(0,) * 3)
    assert attempts.made == 8 + 3


def test_slow_pieces_are_a_lost_connection(clock):
    watch = Watch(Patience(timeout=60, slowest=100, clock=clock))
    for second in range(1, 601):
        clock.now = second
        watch.heard(100)
        watch.arrived(110, 110 * second)
    with pytest.raises(TryAgain, match=r"only [\d,]+ bytes of the file came in 61 s"):
        for second in range(601, 800):
            clock.now = second
            watch.heard(1)
            watch.arrived(1, 0)


def test_bytes_without_a_file_are_noise(clock):
    watch = Watch(Patience(clock=clock))
    watch.heard(NOISE)
    watch.arrived(1, 1)
    watch.heard(NOISE)
    with pytest.raises(SourceFailed, match="4,194,304 bytes that are not part of the file"):
        watch.heard(1)


def test_the_whole_download_takes_no_longer_than_its_size_needs(clock):
    patience = Patience(grace=3600, average=1000, clock=clock)
    watch = Watch(patience)
    watch.resume(10**9)
    clock.now = 3600
    watch.check_time()
    watch.arrived(1_000_000, 10**9 + 1_000_000)
    watch.arrived(1_000_000, 1_000_000)  # the beginning again: not new
    clock.now = 4600
    watch.check_time()
    clock.now = 4601
    with pytest.raises(SourceFailed, match=r"it is too slow: only 1,000,000 bytes came in 1\.3 hours"):
        watch.check_time()
    attempts = Attempts(10)
    attempts.run(waits=(0,) * 50, clock=iter(range(0, 10**6, 1000)).__next__)
    assert attempts.made < 10
