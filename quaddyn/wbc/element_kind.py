"""`ElementKind`: the compiled functions of a kind of task or constraint.

To add a kind with compiled rows: write its file in `quaddyn.wbc.tasks` or `quaddyn.wbc.constraints`, with the class,
its equation, its compiled functions and, last, its `ElementKind` with an unused code (those in use:
``sorted(quaddyn.wbc.element_registry.ELEMENT_CLASSES)``), and export the class from both packages, that one and
`quaddyn.wbc`.  `tasks/frame_axis.py` and, with two frames, `tasks/relative_frame.py` are examples.  A motion task
needs `capture_reference` and `clear_reference`; `reference_divisor` if it rejects some finite reference.

For the documentation and the tests: add its picture to `docs/_ext/element_pictures.py`, a row to `docs/tasks.md`, one
such element to `tests/wbc_elements.py`, under the name of its file, and to the controllers of
`tests/test_wbc_export.py` and `tests/tick_mutants.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..compiler import Vector, compiled
from .row_writing import Item, write_custom_element_rows
from .tick_data import TickContext, TickInputData


@compiled()
def keep_reference(item: Item, t: TickContext) -> None:
    """Does nothing: the default of `ElementKind.capture_reference`, for elements without a position."""


@compiled()
def keep_references(item: Item, inputs: TickInputData, home: Vector) -> None:
    """Does nothing: the default of `ElementKind.clear_reference`, for elements without references."""


@compiled()
def accept_position(position: Vector) -> float:
    """Returns the divisor 1: every finite reference position is valid and used as given; see `ElementKind`."""
    return 1.0


@compiled()
def write_no_rows(item: Item, t: TickContext) -> None:
    """Does nothing: `ElementKind.write_rows` of elements that only add bias forces."""


@compiled()
def add_no_forces(item: Item, t: TickContext, bias: Vector) -> None:
    """Does nothing: the default of `ElementKind.add_bias_forces`."""


@compiled()
def store_nothing(item: Item, t: TickContext, acceleration: Vector) -> None:
    """Does nothing: the default of `ElementKind.finish_tick`."""


class ElementKind(NamedTuple):
    """Compiled functions of a kind of element; a class has it as the attribute `kind`.

    Attributes:
        code: number of the kind; saved ticks contain it, so it never changes.
        write_rows: writes the rows of an element at a tick: ``(item, t)``.
        capture_reference: sets the current position as the reference of a motion task without one: ``(item, t)``.
        clear_reference: sets the reference of a controller that is reset: ``(item, inputs, home)``, with the home
            configuration (nq,).
        reference_divisor: returns the number by which a reference position is divided, 0 for an invalid position:
            ``(position)``.
        add_bias_forces: adds forces that the motors compensate to the bias forces (nv,): ``(item, t, bias)``.
        finish_tick: stores what the next tick reads, from the accelerations (nv,): ``(item, t, acceleration)``.
        position_note: sentence about the form of a reference position in C; "" if it is a plain vector.
    """

    code: int
    write_rows: Callable[[Item, TickContext], None]
    capture_reference: Callable[[Item, TickContext], None] = keep_reference
    clear_reference: Callable[[Item, TickInputData, Vector], None] = keep_references
    reference_divisor: Callable[[Vector], float] = accept_position
    add_bias_forces: Callable[[Item, TickContext, Vector], None] = add_no_forces
    finish_tick: Callable[[Item, TickContext, Vector], None] = store_nothing
    position_note: str = ""


#: Elements whose rows are computed in Python, at every tick, by their method `rows`.
CUSTOM = ElementKind(200, write_custom_element_rows)
