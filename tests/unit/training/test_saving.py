"""A thread writes states while the run trains: one at a time, at intervals."""

import errno
import threading
from collections import OrderedDict

import pytest
import torch

from recheck.errors import UserError
from recheck.training.checkpoint import StateFile
from recheck.training.saving import Saver, copied


class Gated(StateFile):
    """Writes a state only when the gate is open."""

    def __init__(self, folder):
        super().__init__(folder, "a")
        self.gate, self.begun = threading.Event(), threading.Event()

    def save(self, state):
        self.begun.set()
        self.gate.wait()
        super().save(state)


def test_the_written_state_is_the_one_at_the_time_of_the_call(tmp_path):
    file = Gated(tmp_path)
    weights, history = torch.zeros(3), [1]
    with Saver(file) as saver:
        saver.save({"weights": weights, "history": history}, best={"weights": torch.ones(2)})
        file.begun.wait()
        weights += 1
        history.append(2)
        file.gate.set()
        saver.wait()
    loaded = file.load()
    assert loaded["weights"].tolist() == [0, 0, 0]
    assert loaded["history"] == [1]
    assert loaded["best"]["weights"].tolist() == [1, 1]


def test_a_state_is_due_by_time_but_never_while_another_is_written(tmp_path, clock):
    file = Gated(tmp_path)
    with Saver(file, 60, clock) as saver:
        clock.now = 59
        assert not saver.due()
        clock.now = 60
        assert saver.due()
        saver.save({"number": 1})
        clock.now = 500
        assert not saver.due(), "there would be two copies in memory"
        file.gate.set()
        saver.wait()
        assert saver.due(), "time counts from the moment at which the last state was taken"
        saver.save({"number": 2})
        assert not saver.due()
    assert file.load() == {"number": 2}, "leaving the context waits for the state"


def test_a_state_is_due_before_a_time_in_which_none_can_be_taken(tmp_path, clock):
    with Saver(StateFile(tmp_path, "a"), 60, clock) as saver:
        clock.now = 20
        assert not saver.due(ahead=39) and saver.due(ahead=40) and saver.due(ahead=float("inf"))


def test_a_state_is_cheap_if_the_last_one_took_little_of_the_time_since(tmp_path, clock):
    file = Gated(tmp_path)
    with Saver(file, 60, clock) as saver:
        clock.now = 1000
        assert not saver.cheap(), "unknown before the first state"
        saver.save({"number": 1})
        file.begun.wait()
        clock.now = 1002
        assert not saver.cheap(), "the state is being written"
        file.gate.set()
        saver.wait()
        clock.now = 1199
        assert not saver.cheap()
        clock.now = 1200
        assert saver.cheap(), "two seconds of two hundred"


def test_a_state_after_every_step_waits_for_the_one_before_it(tmp_path, clock):
    file = Gated(tmp_path)
    with Saver(file, 0, clock) as saver:
        saver.save({"number": 1})
        threading.Thread(target=lambda: (file.begun.wait(), file.gate.set())).start()
        assert saver.due() and file.load() == {"number": 1}


def test_a_state_that_must_be_saved_follows_the_one_that_is_being_written(tmp_path):
    file = Gated(tmp_path)
    with Saver(file) as saver:
        saver.save({"number": 1})
        threading.Thread(target=lambda: (file.begun.wait(), file.gate.set())).start()
        saver.save({"number": 2})
        saver.wait()
    assert file.load() == {"number": 2}
    file.current.unlink()
    assert file.load() == {"number": 1}


class Full(StateFile):
    def save(self, state):
        from recheck.files import disk_errors

        with disk_errors(self.current):
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["due", "wait", "save", "exit"])
def test_an_error_of_the_thread_is_raised_by_the_next_call(tmp_path, call):
    with pytest.raises(UserError, match=r"^No space left while writing .*state\.bin: free some space"):  # noqa: SIM117
        with Saver(Full(tmp_path, "a"), 0) as saver:
            saver.save({"number": 1})
            saver.thread.submit(int).result()  # after the state
            if call != "exit":
                saver.save({}) if call == "save" else getattr(saver, call)()
                pytest.fail("no error")


def test_an_error_of_the_run_is_not_hidden_by_one_of_the_thread(tmp_path):
    with pytest.raises(ZeroDivisionError), Saver(Full(tmp_path, "a")) as saver:
        saver.save({"number": 1})
        assert saver.kept() == ""
        saver.save({"number": 2})
        raise ZeroDivisionError


def test_copies_share_what_was_shared_and_keep_the_attributes_of_a_state_dict():
    layer = torch.nn.Linear(2, 2)
    state = copied({"a": layer.state_dict(), "b": layer.state_dict(), "pair": (1, [torch.zeros(1)])})
    assert state["a"]["weight"] is state["b"]["weight"]
    assert state["a"]["weight"].data_ptr() != layer.weight.data_ptr()
    assert isinstance(state["a"], OrderedDict) and state["a"]._metadata == layer.state_dict()._metadata
    assert state["pair"] == (1, [torch.zeros(1)])
