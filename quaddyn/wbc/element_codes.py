"""Codes of the kinds of elements in compiled code.

To add a kind with compiled rows:

1. give it a code here (saved ticks contain these codes: append, and do not renumber);
2. write its file in `quaddyn.wbc.tasks` or `quaddyn.wbc.constraints`: the class with ``code``, ``bind`` and
   ``declare_layout`` (see `quaddyn.wbc.element.Element`), its equation in the docstring, and a compiled function that
   writes its rows; `tasks/frame_axis.py` is an example;
3. call that function in `quaddyn.wbc.problem_rows.write_element_rows`; for a motion task, also the function that takes
   the current position as the reference, in `capture_reference`;
4. if it does not accept every finite reference: write a compiled function in its file, and call it in ``reference``
   and, for controllers in C, in `quaddyn.wbc.embedded.reference_divisor`; add a sentence about the position to
   `quaddyn.wbc.export_api`, for the header;
5. export the class from `tasks/__init__.py` or `constraints/__init__.py`, and from `wbc/__init__.py`;
6. add one to ``ELEMENTS`` in `tests/wbc_elements.py`, under the name of its file, and to the controllers of
   `tests/test_wbc_export.py` and `tests/tick_mutants.py`;
7. draw it in `docs/_ext/element_pictures.py`, and add it to the table of `docs/tasks.md` and to `CHANGELOG.md`.

Names correspond: ``FeetDistanceTask`` is in ``tasks/feet_distance.py``, "feet_distance" in ``ELEMENTS``, and its
picture is drawn by ``feet_distance_task``.

`tests/test_wbc_kinds.py`, `tests/test_docs.py` and the tests of rows detect a forgotten step.  The tests of rows
compare each of ``ELEMENTS`` with plain matrices and, if it is a motion task, with finite differences.
"""

# Motion tasks: their parameters begin with those of `quaddyn.wbc.tasks.motion_parameters.MotionParameters`.
COM, FRAME_POSITION, FOOT, FRAME_ORIENTATION, FRAME, RELATIVE_FRAME, POSTURE, JOINT_ACCELERATION, MOMENTUM = range(
    1, 10
)
FRAME_AXIS = 10
FORCE_TASK = 20
CONTACT_MOTION, FRICTION_PYRAMID, NORMAL_FORCE, TORQUE_LIMITS, TORQUE_RATE = range(101, 106)
JOINT_BOUNDS, JOINT_FRICTION, COLLISION_LIMITS, HELD_OBJECT = 107, 108, 109, 110
#: Elements whose rows are computed in Python, at every tick, by their method `rows`.
CUSTOM = 200
