"""What is wanted of contacts, component by component, as the rows of one array `aims` on the compiled dense path."""

from __future__ import annotations

#: Acceleration at ``a = 0``; the wanted one, or the force of a spring; whether it is a strict wish, and about what.
BIAS, WISH, STRICT = 0, 1, 2

#: Strict about motion, about force.
MOTION, FORCE = 1.0, 2.0
