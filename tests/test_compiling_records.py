"""Mutable records from Python: one block of memory, attribute access, and errors that name the field.

`test_compiling.py` tests that Python, machine code and C99 agree on them.
"""

import copy
import pickle

import numpy as np
import pytest
from compiling_zoo import Leg, Phase, Walk, _walk, lift_off, tame
from hypothesis import given
from hypothesis import strategies as st
from raising import raises

from quaddyn.compiler import ByteVector, IntVector, Matrix, Record, Tensor, Vec3
from quaddyn.errors import ArgumentError, ArgumentTypeError


@pytest.fixture
def walk():
    return _walk(np.random.default_rng(3), tame)


def test_attributes_read_and_write_the_same_memory(walk):
    before = walk.block.copy()
    walk.right.phase = Phase.STANCE
    walk.left.foot = [1.0, 2.0, 3.0]
    walk.is_moving, walk.ticks, walk.speed = True, 12, 0.25
    assert walk.right.phase is Phase.STANCE and list(walk.left.foot) == [1.0, 2.0, 3.0]
    assert walk.is_moving is True and walk.ticks == 12 and walk.speed == 0.25
    assert not np.array_equal(before, walk.block), "the block contains all fields"
    walk.block[:] = before
    assert walk.ticks != 12 and list(walk.left.foot) != [1.0, 2.0, 3.0], "a snapshot is a copy of the block"


def test_small_array_read_from_a_record_is_a_copy(walk):
    foot = walk.left.foot
    before = foot.copy()
    walk.left.foot = foot * 2.0
    assert np.array_equal(foot, before)


def test_invalid_enumeration_value_is_read_as_a_number(walk):
    walk.left[0][()] = 77
    assert walk.left.phase == 77


def test_compiled_functions_called_from_python_change_the_record(walk):
    walk.left.phase, height = Phase.STANCE, walk.left.foot[2]
    assert lift_off(walk.left, 0.5) is True
    assert walk.left.phase is Phase.SWING and walk.left.foot[2] == height + 0.5


@pytest.mark.parametrize("twin", [copy.deepcopy, copy.copy, Walk.copy, lambda w: pickle.loads(pickle.dumps(w))])
def test_copies_are_equal_and_share_no_memory(walk, twin):
    other = twin(walk)
    assert np.array_equal(other.block, walk.block) and not np.shares_memory(other.block, walk.block)
    other.left.load = 9.0
    assert walk.left.load != 9.0


def test_errors_name_record_and_field(walk):
    for change, error, words in (
        (lambda: setattr(walk, "speeed", 1.0), AttributeError, "Walk has no field 'speeed'; it has ticks, R"),
        (lambda: setattr(walk, "P", np.zeros((3, 4))), AttributeError, "Walk.P: an array or record"),
        (lambda: setattr(walk, "left", walk.right), AttributeError, "Walk.left: an array or record"),
        (lambda: setattr(walk, "R", np.zeros(9)), ArgumentError, r"Walk.R: expected shape \(3, 3\), got \(9,\)"),
        (lambda: Walk.allocate(P=(3, 4)), ArgumentError, "Walk: no shape is given for order"),
        (lambda: Walk.allocate(P=3, order=2), ArgumentError, "Walk.P: expected a shape with 2 sizes"),
        (lambda: Walk.allocate(P=(3, 4), order=2, ordre=2), ArgumentError, "Walk: it has no field ordre"),
        (lambda: Leg(np.zeros(())), ArgumentTypeError, "Leg: expected the fields phase, foot, load, got 1 fields"),
        (lambda: Leg(1, np.zeros(3), np.zeros(())), ArgumentTypeError, "Leg.phase: expected int array"),
        (lambda: Leg(np.array(1), np.zeros(4), np.zeros(())), ArgumentError, "Leg.foot: expected 3 floats, got 4"),
        (
            lambda: Leg(np.array(1), np.zeros(3), np.zeros(())).block,
            ArgumentError,
            "Leg: the record must have been made by allocate",
        ),
        (lambda: walk.copy_from(Walk.allocate(P=(2, 2), order=5)), ArgumentError, "Walk.P: expected shape"),
    ):
        raises(error, words, change)


def test_invalid_record_classes_are_rejected():
    with pytest.raises(TypeError, match="is reserved by Record"):
        type("Bad", (Record,), {"__annotations__": {"copy": int}, "__module__": __name__})
    with pytest.raises(TypeError, match="must be derived directly from Record"):
        type("Bad", (Walk,), {"__annotations__": {}, "__module__": __name__})
    bad = type("Bad", (Record,), {"__annotations__": {"text": str}, "__module__": __name__})
    raises(TypeError, "Bad: every field must be annotated", bad.allocate)


class Arrays(Record):
    flags: ByteVector
    count: int
    T: Tensor
    v: Vec3
    index: IntVector
    M: Matrix


@given(st.tuples(*(st.integers(0, 20) for _ in range(7))))
def test_fields_of_any_size_are_aligned_and_do_not_overlap(n):
    record = Arrays.allocate(flags=n[0], T=n[1:4], index=n[4], M=n[5:7])
    for k, field in enumerate(record):
        assert field.flags.aligned and field.flags.c_contiguous
        assert field.nbytes < 64 or field.__array_interface__["data"][0] % 64 == 0
        field[...] = k + 1
    assert all((field == k + 1).all() for k, field in enumerate(record))
    used = sum(record.field_sizes().values())
    assert used <= record.block.nbytes < used + 64 * len(record)


@pytest.mark.parametrize(
    ("owner", "field", "value", "error"),
    [
        ("walk", "ticks", 1.5, ArgumentTypeError),
        ("walk", "is_moving", 2, ArgumentTypeError),
        ("walk", "speed", "1.5", ArgumentTypeError),
        ("walk", "speed", None, ArgumentTypeError),
        ("left", "phase", 1.0, ArgumentTypeError),
        ("left", "phase", 99, ArgumentError),
    ],
)
def test_assigned_values_of_another_type_are_rejected_and_change_nothing(owner, field, value, error):
    walk = _walk(np.random.default_rng(0), tame)
    record = walk if owner == "walk" else walk.left
    before = getattr(record, field)
    raises(error, rf"{type(record).__name__}\.{field}: expected", setattr, record, field, value)
    assert getattr(record, field) == before
