# ruff: noqa: B007, F823, F841, RUF059
"""Functions that cannot be compiled; comments give line and text of the expected error.

All functions but `undecorated` are decorated with `compiled` at the end.

``#!`` marks the line that the error names, followed by a part of the message.
"""

import enum
import inspect
import math
from typing import NamedTuple

import numpy as np

from quaddyn.compiler import (
    IntVector,
    Lanes,
    Mat3,
    Matrix,
    Vec3,
    Vector,
    call_kernel,
    compiled,
    entry,
    load8,
    local,
    matrix,
    min8,
    store8,
    sum8,
    vec3,
    zeros,
)
from quaddyn.compiler import Record as MutableRecord
from quaddyn.compiler.signatures import options_of

TABLE = np.zeros(3)
COUNT = 3


class Record(NamedTuple):
    a: float
    x: Vector


class Unknown(NamedTuple):
    a: str


@compiled()
def helper(x: Vector, n: int) -> float:
    return x[n]


@compiled()
def two(x: Vector) -> tuple[float, float]:
    return x[0], x[1]


def undecorated(a: float) -> float:
    return a


# fmt: off
def two_kinds(a: float) -> float:
    n = 0
    n = a  #! 'n' has the kind int and would change to float; begin with n = 0.0
    return n
def possibly_unassigned(a: float) -> float:
    if a > 0.0:
        b = 1.0
    return b  #! 'b' may have no value here; assign a value on every path before this line
def counter_after_a_loop(n: int) -> int:
    for i in range(n):
        pass
    return i  #! 'i' may have no value here
def hides_a_global(n: int) -> int:
    k = COUNT  #! 'COUNT' has no value yet
    COUNT = 4
    return k + COUNT
def calls_itself(n: int) -> int:  # the line of the decorator is named
    return calls_itself(n - 1)
def strided(x: Vector) -> float:
    return x[::2][0]  #! only the last index may be a slice, without a step
def power(a: float) -> float:
    return a**2  #! the operator Pow is not supported in compiled code; write the product out
def power_in_place(a: float) -> float:
    a **= 2  #! the operator Pow is not supported in compiled code
    return a
def float_condition(a: float) -> float:
    if a:  #! a float is not accepted as a condition; write a comparison
        return 1.0
    return 0.0
def array_condition(x: Vector) -> float:
    while x:  #! expected a number, got float array of rank 1
        pass
    return 0.0
def one_of_two_ints(n: int) -> int:
    return n or 3  #! expected a bool, got int; write a comparison
def unknown_name(a: float) -> float:
    return a + nowhere  #! 'nowhere' is not defined  # noqa: F821
def unknown_function(a: float) -> float:
    return nowhere(a)  #! nowhere is not defined  # noqa: F821
def no_annotation(a) -> float:  # the line of the decorator is named
    return a
def no_result_annotation(a: float):  # likewise
    return a
def strange_annotation(a: str) -> float:  # likewise
    return 0.0
def starred(*a: float) -> float:  # likewise
    return 0.0
def unreachable(a: float) -> float:
    return a
    a = 1.0  #! this statement is never reached
def no_way_out(a: float) -> float:  #! the function may end without a return; return a value on every path
    if a > 0.0:
        return a
def empty_return(a: float) -> float:
    return  #! expected a return value of kind float
def result_of_nothing(a: float) -> None:
    return a  #! the function is annotated to return None, but returns a value
def wrong_result(a: float) -> int:
    return a  #! return: expected int, got float
def floats_into_ints(x: Vector, n: IntVector) -> None:
    n[:] = x  #! n[:]: expected int array of rank 1, got float array of rank 1
def rows_exchanged(M: Matrix) -> None:
    M[0], M[1] = M[1], M[0]  #! values can only be assigned to single entries of arrays
def field_assigned(r: Record) -> None:
    r.a = 1.0  #! r.a cannot be assigned to
def float_into_ints(x: IntVector, a: float) -> None:
    x[0] = a  #! a float cannot be assigned to an int entry; write int(...)
def calls_undecorated(a: float) -> float:
    return undecorated(a)  #! undecorated is not a compiled function; decorate it with @compiled
def calls_a_method(x: Vector) -> float:
    return x.sum()  #! x.sum is a variable, not a function
def calls_a_table(n: int) -> float:
    return TABLE(n)  #! TABLE cannot be called
def uses_a_table(n: int) -> float:
    return TABLE[n]  #! a constant of type ndarray is not supported in compiled code
def too_few_arguments(x: Vector) -> float:
    return helper(x)  #! helper takes 2 arguments: x, n
def wrong_keyword(x: Vector) -> float:
    return helper(x, m=1)  #! helper takes x, n once each, got 'm'
def calls_out_of_order(x: Vector) -> float:
    return helper(n=int(helper(x, 1)), x=x)  #! pass the arguments of helper in the order of its parameters
def call_in_an_index_in_place(x: Vector) -> None:
    x[int(helper(x, 1))] += 1.0  #! assign the index to a variable first
def float_index(x: Vector, a: float) -> float:
    return x[a]  #! expected an int for an index, got float; write int(...)
def too_many_indices(x: Vector) -> float:
    return x[0, 1]  #! 2 indices into an array of rank 1
def index_of_a_number(a: float) -> float:
    return a[0]  #! float cannot be indexed
def tuple_index(x: Vector, n: int) -> float:
    return two(x)[n]  #! the index of a tuple must be a constant within its length
def wrong_count(x: Vector) -> float:
    a, b, c = two(x)  #! 3 targets for 2 values
    return a
def number_taken_apart(a: float) -> float:
    b, c = a  #! float cannot be unpacked
    return b
def float_division_to_floor(a: float) -> float:
    return a // 2  #! // is only supported for an int and a positive constant
def division_by_a_variable(n: int, m: int) -> int:
    return n % m  #! % is only supported for an int and a positive constant
def division_by_a_negative(n: int) -> int:
    return n // -2  #! // is only supported for an int and a positive constant
def inverted(n: int) -> int:
    return ~n  #! the operator Invert is not supported in compiled code
def identity(n: int) -> bool:
    return n is COUNT  #! the comparison Is is not supported in compiled code
def large(n: int) -> int:
    return n + 9223372036854775808  #! the constant 9223372036854775808 has more than 64 bits
def text(n: int) -> int:
    s = "a"  #! a constant of type str is not supported in compiled code
    return n
def arrays_added(x: Vector) -> float:
    y = x + x  #! + is not defined for float array of rank 1 and float array of rank 1
    return y[0]
def lanes_divided(x: Vector) -> float:
    return sum8(load8(x, 0) // 2.0)  #! // is not defined on lanes
def lanes_without_an_index(x: Vector) -> float:
    return sum8(load8(x))  #! load8 into float array of rank 1 takes 1 indices
def lanes_of_nothing(x: Vector) -> float:
    return sum8(load8())  #! load8 takes an array and indices
def lanes_of_ints(x: IntVector) -> float:
    return sum8(load8(x, 0))  #! expected an array of floats, got int array of rank 1
def kernel_of_a_matrix(address: int, x: Vector, M: Matrix) -> int:
    return call_kernel(address, x, x, M)  #! call_kernel takes an address and three vectors
def nothing_stored(x: Vector) -> None:
    store8()  #! store8 takes lanes, an array and indices
def fewer_lanes_than_compared(x: Vector) -> float:
    return sum8(min8(load8(x, 0)))  #! min8 takes 2 arguments, got 1
def two_ways(a: float) -> float:
    return 1 if a > 0.0 else a  #! the two branches are int and float; they must be of the same kind
def over_an_array(x: Vector) -> float:
    s = 0.0
    for a in x:  #! a loop must be 'for name in range(...)' or over a global tuple, without else
        s += a
    return s


CONSTANTS = 1.0, 2.0
def break_of_an_unrolled_loop(x: float) -> float:
    for a in CONSTANTS:
        if x > a:
            break  #! break and continue are only allowed in a loop over a range or a while loop
    return x
def constant_and_variable(x: float) -> float:
    a = x
    for a in CONSTANTS:  #! 'a' is a variable already; use two names
        x += a
    return x
def after_an_unrolled_loop(x: float) -> float:
    for a in CONSTANTS:
        x += a
    return a  #! 'a' has no value yet
def attribute_of_a_constant(x: float) -> float:
    for a in CONSTANTS:
        x += a.gain  #! 'a.gain' is not defined
    return x
def variable_step(n: int) -> int:
    s = 0
    for i in range(0, n, n):  #! the step of a range must be a constant that is not 0
        s += i
    return s
def counter_of_floats(n: int) -> float:
    a = 0.0
    for a in range(n):  #! 'a' is float and cannot be the variable of this loop; use another name
        pass
    return a
def loop_with_else(n: int) -> int:
    while n > 0:  #! else after a loop is not supported in compiled code
        n -= 1
    else:
        n = 5
    return n
def raises(n: int) -> int:
    if n < 0:
        raise ValueError  #! Raise is not supported in compiled code
    return n
def comprehension(n: int) -> int:
    x = [i for i in range(n)]  #! ListComp is not supported in compiled code
    return n
def does_nothing(n: int) -> int:
    int(n)  #! this statement has no effect
    return n
def no_such_field(r: Record) -> float:
    return r.b  #! Record has no field 'b'; it has a, x
def logarithm_with_a_base(a: float) -> float:
    return math.log(a, 2.0)  #! math.log takes 1 arguments, got 2
def only_one(a: float) -> float:
    return max(a)  #! max requires at least two numbers
def local_of_a_variable(n: int) -> float:
    x = local(n)  #! the sizes of a local array must be constants from 1 to 4096
    return x[0]
def local_too_large(n: int) -> float:
    x = zeros(1000, 1000)  #! 1000000 numbers are too many for a local array
    return x[0, n]
def local_in_a_loop(n: int) -> float:
    s = 0.0
    for i in range(n):
        x = zeros(3)  #! a local array is made in a loop; make it before the loop
        s += x[i]
    return s
def local_returned(n: int) -> Vector:
    M = zeros(3, 3)
    row = M[n]
    return row[1:]  #! a local array exists only during the call and cannot be returned
def size_left_open(x: Vector) -> float:
    return x.reshape(-1, 2)[0, 0]  #! a size of -1 is not supported; pass the size
def carved_from_a_matrix(M: Matrix) -> float:
    return matrix(M, 0, 1, 1)[0, 0]  #! matrix requires a vector as its memory, got float array of rank 2
def lanes_changed_to_numbers(x: Lanes) -> float:
    return abs(x)  #! expected a number, got lanes
@entry("refused")
def returns_a_tuple(a: float) -> tuple[float, float]:  # the line of the decorator is named
    return a, a
@entry("refused")
def takes_lanes(a: Lanes) -> float:  # likewise
    return sum8(a)
@compiled()
def same_name(a: float) -> float:
    return a + 1.0
first = same_name
@compiled()
def same_name(a: float) -> float:
    return a + 2.0
second = same_name
def calls_twins(a: float) -> float:
    return first(a) + second(a)
class Side(enum.IntEnum):
    LEFT = 0
    RIGHT = 1
class State(MutableRecord):
    side: Side
    count: int
    is_on: bool
    v: Vec3
    x: Vector
def makes_a_record() -> int:
    s = State(1, 2, True, 3, 4)  #! create it in Python by State.allocate
    return s.count
def replaces_an_array(s: State, x: Vector) -> None:
    s.x = x  #! s.x cannot be assigned to, because it is not a number in a mutable record
def int_for_a_bool(s: State) -> None:
    s.is_on = s.count  #! s.is_on: expected bool, got int
def vector_for_a_number(s: State) -> None:
    s.count = s.v  #! s.count: expected int, got Vec3
def copies_another_class(s: State, r: Record) -> None:
    s.copy_from(r)  #! copy_from requires two mutable records of the same class, got Record and State
def no_such_member(s: State) -> bool:
    return s.side == Side.MIDDLE  #! 'Side.MIDDLE' is not defined
#: Messages of errors at the line of the definition.
AT_THE_TOP = {
    "calls_itself": "the function calls itself through compiling_refused.calls_itself; use a loop instead of",
    "no_annotation": "parameter 'a': must be annotated with a kind of quaddyn.compiler.kinds",
    "no_result_annotation": "the return annotation must be a kind",
    "strange_annotation": "parameter 'a': must be annotated",
    "starred": "parameter 'a': * and ** parameters are not supported",
    "returns_a_tuple": "a function called from Python must return a float, an int, a bool or None, not tuple of "
    "float, float",
    "takes_lanes": "parameter 'a': Python cannot pass lanes",
}
def small_array_of_two(x: float) -> Vec3:
    return vec3(x, x)  #! vec3 takes 3 numbers or an array of 3 floats
def sum_of_vector_and_matrix(a: Vec3, A: Mat3) -> Vec3:
    return a + A  #! + of Vec3 and Mat3 is not defined
def product_of_arrays(A: Matrix, x: Vector) -> Vec3:
    return A @ x  #! convert them to small arrays, such as vec3(x)
def entry_of_a_small_array_changed(a: Vec3) -> Vec3:
    a[0] = 1.0  #! values can only be assigned to single entries
    return a
def row_beyond_a_matrix(A: Mat3) -> Vec3:
    return A[3]  #! the index into a Mat3 must be within its shape
def row_by_a_variable(A: Mat3, i: int) -> Vec3:
    return A[i]  #! the index into a Mat3 must be a constant
def matrix_into_a_vector(A: Mat3, x: Vector) -> None:
    x[:] = A  #! a Mat3 can be assigned to a slice or row of a float array of rank 2


# fmt: on
globals().update(
    {
        name: compiled()(function)
        for name, function in list(globals().items())
        if inspect.isfunction(function)
        and function.__module__ == __name__
        and name != "undecorated"
        and options_of(function) is None
    }
)
