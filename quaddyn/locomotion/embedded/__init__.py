"""Locomotion controllers with their whole-body controllers as records: for programs in C99, and for batches."""

#: All compiled functions are one unit.
__compilation_unit__ = "walker"
