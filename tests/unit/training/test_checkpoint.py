"""Training state: never incomplete, never from another run, never running code."""

import pickle

import pytest
import torch

from recheck.training.checkpoint import StateFile


def state(number):
    return {"number": number, "tensor": torch.full((50,), float(number)), "nested": {"list": [1, None, "x"]}}


def test_round_trip(tmp_path):
    file = StateFile(tmp_path, "a")
    assert file.load() is None
    file.save(state(1))
    file.save(state(2))
    loaded = StateFile(tmp_path, "a").load()
    assert loaded["number"] == 2
    assert torch.equal(loaded["tensor"], state(2)["tensor"])


def test_a_state_with_another_fingerprint_is_ignored(tmp_path):
    StateFile(tmp_path, "a").save(state(1))
    assert StateFile(tmp_path, "b").load() is None


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_a_truncated_state_falls_back_to_the_previous_one(tmp_path, keep):
    file = StateFile(tmp_path, "a")
    file.save(state(1))
    file.save(state(2))
    data = file.current.read_bytes()
    file.current.write_bytes(data[: int(len(data) * keep)])
    assert file.load()["number"] == 1


def test_any_flipped_byte_is_noticed(tmp_path):
    file = StateFile(tmp_path, "a")
    file.save(state(1))
    data = bytearray(file.current.read_bytes())
    for place in torch.randint(len(data), (40,), generator=torch.Generator().manual_seed(1)).tolist():
        damaged = data.copy()
        damaged[place] ^= 0x40
        file.current.write_bytes(damaged)
        assert file.load() is None


def test_two_damaged_states_start_from_the_beginning(tmp_path):
    file = StateFile(tmp_path, "a")
    file.save(state(1))
    file.save(state(2))
    file.current.write_bytes(b"x")
    file.previous.write_bytes(b"")
    assert file.load() is None


def test_a_pickle_bomb_does_not_run(tmp_path):
    import hashlib

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    payload = pickle.dumps({"fingerprint": "a", "state": Bomb()})
    file = StateFile(tmp_path, "a")
    file.current.write_bytes(hashlib.sha256(payload).digest() + payload)
    assert file.load() is None
    assert not (tmp_path / "exploded").exists()


def test_a_message_names_the_kept_state_only_if_there_is_one(tmp_path):
    file = StateFile(tmp_path, "settings")
    assert file.kept() == ""
    file.save({"epoch": 1})
    assert file.kept() == f" The last good state is kept in {tmp_path}."
