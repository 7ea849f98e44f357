"""The kinds of elements, as compiled code numbers them.

To add a kind with compiled rows:

1. give it a number here (saved ticks have these numbers: append, and do not renumber);
2. write its file in `quaddyn.wbc.tasks` or `quaddyn.wbc.constraints`: the class with ``code``, ``refer`` and
   ``layout`` (see `quaddyn.wbc.element.Element`), and a compiled function that writes its rows;
   `tasks/frame_axis.py` is an example;
3. call that function in `quaddyn.wbc.problem_rows.element_rows`; for a motion task, also the function that takes the
   present position for its reference, in `capture_reference`;
4. export the class from `tasks/__init__.py` or `constraints/__init__.py`, and from `wbc/__init__.py`.

`tests/wbc_elements.py` lists one element of each kind; the tests of rows, of saved ticks and of explanations go
through that list.
"""

# Motion tasks: their parameters begin with those of `quaddyn.wbc.tasks.motion.MotionParameters`.
COM, FRAME_POSITION, FOOT, FRAME_ORIENTATION, FRAME, RELATIVE_FRAME, POSTURE, JOINT_ACCELERATION, MOMENTUM = range(
    1, 10
)
FRAME_AXIS = 10
FORCE_TASK = 20
CONTACT_MOTION, FRICTION_PYRAMID, NORMAL_FORCE, TORQUE_LIMITS, TORQUE_RATE = range(101, 106)
JOINT_BOUNDS, JOINT_FRICTION, COLLISION_LIMITS = 107, 108, 109
#: Elements whose rows are computed in Python, on every tick, by their method `rows`.
CUSTOM = 200
