"""Small functions that together use all constructs of restricted Python, with functions that make their arguments.

`CASES` names for every entry a function that makes random arguments; arrays among them may be written to.
"""

import ctypes
import enum
import math
from typing import NamedTuple

import numpy as np

from quaddyn.compiler import (
    ByteMatrix,
    ByteVector,
    IntMatrix,
    IntVector,
    Lanes,
    Mat3,
    Matrix,
    Quat,
    Record,
    Tensor,
    Vec3,
    Vector,
    alignment,
    block3,
    broadcast8,
    call_kernel,
    compiled,
    cross,
    diagonal3,
    entry,
    exp3,
    inverse3,
    left_jacobian3,
    load8,
    local,
    mask_range8,
    mat3,
    matrix,
    max8,
    min8,
    norm,
    orthonormalized,
    outer,
    quat,
    quaternion_of,
    rotation_of,
    select8,
    set_block3,
    skew,
    sqrt8,
    store8,
    sum8,
    tensor,
    vec3,
    zeros,
)

CASES = {}
HALF, MANY, LEAST = 0.5, 2**40, -(2**63)


def floats(rng, size=None):
    """Random floats, including zeros, infinities, NaN and extreme values."""
    x = rng.normal(size=size) * 10.0 ** rng.integers(-3, 4, size=size)
    odd = rng.choice([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, 0.1], size=size)
    out = np.where(rng.random(size) < 0.3, odd, x)
    return float(out) if size is None else out


def tame(rng, size=None):
    """Normally distributed floats."""
    out = rng.normal(size=size)
    return float(out) if size is None else out


def ints(rng, size=None):
    """Ints of all sizes."""
    big = rng.integers(-(2**63), 2**63 - 1, size=size, endpoint=True)
    odd = rng.choice(np.array([0, 1, -1, 2**62, -(2**63), 2**63 - 1, 2**53 + 1]), size=size)
    draw = rng.random(size)
    out = np.where(draw < 0.5, rng.integers(-20, 21, size=size), np.where(draw < 0.75, odd, big))
    return int(out) if size is None else out.astype(np.int64)


def case(make):
    """Decorator of an entry; `make` returns its arguments from a random generator."""

    def register(function):
        out = entry("zoo")(function)
        CASES[function.__name__] = (out, make)
        return out

    return register


# fmt: off
# -- numbers ---------------------------------------------------------------------------------------------------------
@case(lambda g: (ints(g),))
def floor_division(n: int) -> int:
    """Floor division, also of negative numbers."""
    return n // 7 + n // 1 - n // 8 + n // 1000003
@case(lambda g: (ints(g),))
def remainder(n: int) -> int:
    return n % 7 * 1000000 + n % 8 + n % MANY - n % True
@case(lambda g: (ints(g), ints(g), ints(g)))
def wrap(a: int, b: int, c: int) -> int:
    return a * b + c - a * 3 + -b - (c & 255 | 4096)
@case(lambda g: (ints(g), ints(g)))
def bits(a: int, b: int) -> int:
    flag = (a > b) | (a == 3) & (b < 0)
    return (a & b | 6) + flag
@case(lambda g: (ints(g), ints(g), ints(g)))
def int_extremes(a: int, b: int, c: int) -> int:
    return min(a, b, c) // 2 + max(a, b, c) // 2 + abs(c // 2) + min(a, 3) % 5 + abs(a < b) + max(c, LEAST) % 7
@case(lambda g: (floats(g), floats(g), floats(g)))
def float_extremes(a: float, b: float, c: float) -> float:
    """Minima and maxima with NaN and signed zeros: the first value unless another one is smaller or larger."""
    return min(a, b) if c > 0.0 else max(a, b, c, 0.0) if c < 0.0 else min(c, a, 1)
@case(lambda g: (floats(g), floats(g)))
def relations(a: float, b: float) -> int:
    n = 0
    if a < b:
        n += 1
    if a <= b:
        n += 2
    if a > b:
        n += 4
    if a >= b:
        n += 8
    if a == b:
        n += 16
    if a != b:
        n += 32
    if not a < b:
        n += 64
    return n
@case(lambda g: (floats(g), floats(g), floats(g), ints(g)))
def chains(a: float, b: float, c: float, n: int) -> int:
    return (a < b < c) + 2 * (a <= b == c != 1.0) + 4 * (-5 < n <= 5) + 8 * (0 <= a < 2) + 16 * (a < b) * (b < a)
@case(lambda g: (floats(g), floats(g), floats(g)))
def arithmetic(a: float, b: float, c: float) -> float:
    s = a - (b - c) * HALF - -a * (b + c)
    s += a * b
    s -= (a - c) - (b - a)
    s *= a + 1.0
    return s - (a + b) * (c - 1.5) * 1e-3
@case(lambda g: (tame(g), tame(g), int(g.integers(-5, 6)), bool(g.random() < 0.5)))
def conversions(a: float, b: float, n: int, flag: bool) -> float:
    s = 0.0
    s += n
    s = s + flag + int(a * 10.0) + float(n) * 0.25 + int(flag) + n / 4 + math.floor(b * 3.0)
    k = 3
    k = flag
    s = s * 0.5 + k
    return s / (2.0 + abs(a)) + (1.0 if flag else 2.0)
@case(lambda g: (floats(g),))
def to_int(a: float) -> int:
    return int(a)
@case(lambda g: (floats(g),))
def to_floor(a: float) -> int:
    return math.floor(a)
@case(lambda g: (floats(g), floats(g)))
def finite(a: float, b: float) -> bool:
    return math.isfinite(a) and not math.isfinite(b * 0.5)
@case(lambda g: (tame(g), tame(g)))
def library(a: float, b: float) -> float:
    return math.sqrt(abs(a)) + math.sin(a) * math.cos(b) + math.atan2(a, b) - math.exp(b) + math.log(abs(a) + 1e-3)
@case(lambda g: (tame(g), tame(g)))
def more_library(a: float, b: float) -> float:
    cosine = a / math.sqrt(a * a + b * b + 1e-3)
    return math.acos(cosine) + math.log1p(abs(b)) + math.copysign(a, b)
@case(lambda g: (ints(g), ints(g), bool(g.random() < 0.5)))
def truth(a: int, b: int, flag: bool) -> bool:
    if (a and not b) or (flag and (a or b)):
        return (a != 0 and flag) or b > a
    return not (a or flag)
@case(lambda g: (floats(g), floats(g, 3)))
def not_a_number(a: float, x: Vector) -> int:
    """0 / 0 and roots of negative numbers in an array, where Python does not raise."""
    x[0] = x[1] / x[2]
    n = 0
    if x[0] != x[0]:
        n = 1
    x[2] = a * 0.0
    x[1] = -x[2]
    return n

# -- order -----------------------------------------------------------------------------------------------------------
@compiled()
def note(log: IntVector, what: int) -> int:
    log[0] += 1
    log[log[0]] = what
    return what
@compiled(inline=False)
def noted(log: IntVector, what: int) -> float:
    return 0.5 * note(log, what)
@compiled()
def pair(log: IntVector, a: int, b: int) -> tuple[int, float]:
    note(log, 100 + a)
    return a - b, 0.25 * b
def _log(g):
    return (np.zeros(64, dtype=np.int64), *(int(n) for n in g.integers(0, 4, size=3)))
@case(_log)
def left_to_right(log: IntVector, a: int, b: int, c: int) -> float:
    log[40 + note(log, a)] = note(log, b)
    s = noted(log, a) - log[0] * noted(log, b) + log[0]
    s += pair(log, note(log, c), log[0])[1] - pair(log, log[0], note(log, a))[0]
    log[50] = log[0] + note(log, 9) * log[0]
    return s + max(noted(log, 1), log[0], noted(log, 2))
@case(_log)
def short_circuit(log: IntVector, a: int, b: int, c: int) -> int:
    n = 0
    if note(log, a) < note(log, b) < note(log, c) <= note(log, 5):
        n = 1
    if (note(log, a) > 1 and note(log, b)) or note(log, c) == 2:
        n += 2
    hit = a == 0 or note(log, 7) > b or note(log, 8) > c
    while note(log, n) < 3 and log[0] < 30:
        n += 1
    k = note(log, 20) if a < b else note(log, 21) - log[0]
    return n + hit + k
@case(_log)
def several_targets(log: IntVector, a: int, b: int, c: int) -> int:
    x = y = note(log, a)
    a, b, c = b, c, a
    a, b = b + log[0], note(log, a)
    log[30], log[31] = log[31] + a, log[30] + b
    i, log[32 + a % 4] = 2, a
    i = log[33 + i] = log[32] + 1
    (x, y), (_unused, z) = pair_of(x, y), (y, x)
    return x + 10 * y + 100 * z + i
@compiled()
def pair_of(a: int, b: int) -> tuple[int, int]:
    return b, a - b

# -- loops -----------------------------------------------------------------------------------------------------------
@case(lambda g: tuple(int(n) for n in g.integers(-6, 12, size=2)))
def counting(a: int, b: int) -> int:
    s = 0
    for i in range(a, b, 3):
        s = s * 7 + i
    for i in range(b, a, -2):
        s = s * 5 - i
    for _ in range(b):
        s += 1
    k = 50
    for k in range(a):
        s += k
        k = k * 2 + 1
        s += k
    stop = b
    for i in range(stop):
        stop = 2
        for j in range(i):
            if j == 3:
                break
            if (i + j) % 2 == 0:
                continue
            s += i * j
    return s * 100 + k
@case(lambda g: tuple(int(n) for n in g.integers(0, 40, size=2)))
def endless(a: int, b: int) -> int:
    n = 0
    while True:
        n += 1
        if n > a:
            found = n
            break
        if n * n > b + 50:
            found = -n
            break
        if n % 2:
            continue
        n += 1
    while a > 0:
        a -= 1
        if a == b:
            return found * 1000
        while True:
            if a % 3 == 0:
                break
            a -= 1
    return found + a
@case(lambda g: tuple(int(n) for n in g.integers(0, 9, size=1)))
def branches(a: int) -> int:
    if a == 0:
        return 5
    elif a < 3:
        x = a * 2
    else:
        if a == 5:
            x = 1
        elif a == 6:
            return -1
        else:
            x = 0
            for k in range(a):
                x += k
    return x

# -- arrays ----------------------------------------------------------------------------------------------------------
def _arrays(g):
    return (
        tame(g, 7), tame(g, (3, 4)), tame(g, (2, 3, 4)), g.integers(0, 3, size=5), int(g.integers(0, 2)),
        int(g.integers(0, 3)), int(g.integers(0, 4)),
    )  # fmt: skip
@case(_arrays)
def indexing(x: Vector, M: Matrix, T: Tensor, N: IntVector, i: int, j: int, k: int) -> float:
    s = x[i] + M[j, k] + T[i, j, k] + x[-1] + M[-1, -2] + T[-2, j, -4] + x[N[j]] + M[N[1]][k] + T[i][j][k] + T[i, j][k]
    x[i] += s
    M[j, k] *= 2.0
    T[i, j, k] -= M[j, k]
    T[i][j][0] = 9.0
    M[j][k] = M[N[2], 1] + T[1][N[3], 2]
    N[j] += 3
    return s
@case(_arrays)
def views(x: Vector, M: Matrix, T: Tensor, N: IntVector, i: int, j: int, k: int) -> float:
    y = x[i:]
    z = x[: j + 3]
    y[0] = 5.0
    z[i + 1] += y[0]
    P, R = T[i], M[j]
    P[j, 1] = R[k] + len(R) + len(x[1 : 4 + i])
    Q = T[0:1]
    low, high = M[1:], M[j, 1:3]
    high[0] = low[0, k] + Q[0, j, k]
    whole = x[:]
    n, m = M.shape
    a, b, c = Q.shape
    _, d, _ = T.shape
    return whole[2] + n + 10 * m + 100 * a + 1000 * b + c + d + T.shape[0] + M[1:].shape[0] + x[2:-1].shape[0]
@case(lambda g: (tame(g, 60), int(g.integers(0, 5)), int(g.integers(1, 4)), int(g.integers(1, 4))))
def carving(memory: Vector, at: int, rows: int, columns: int) -> float:
    A = matrix(memory, at, rows, columns)
    T = tensor(memory, at + 2, 2, rows, columns)
    A[rows - 1, 0] = 7.0
    T[1, rows - 1, columns - 1] += A[0, columns - 1]
    B = A.reshape(columns, rows)
    C = memory[:12].reshape((3, 4))
    line = A.reshape(rows * columns)
    return B[columns - 1, rows - 1] + C[2, 1] + line[rows * columns - 1] + A.shape[1] + T.shape[0]
@case(lambda g: (g.integers(-128, 128, size=(3, 5)).astype(np.int8), ints(g, 6), int(g.integers(0, 3))))
def bytes_and_ints(W: ByteMatrix, N: IntVector, i: int) -> int:
    row = W[i]
    s = row[0] * 1000 + row[1] * row[2] * 1000000
    row[3] = 5 - i
    W[i, 4] = W[2, 3] // 2
    N[i] = N[i + 1] % 1000 + row[0]
    N[5] = int(row[1] < row[2])
    return s + first_byte(row)
@compiled()
def first_byte(w: ByteVector) -> int:
    return w[0]
@case(lambda g: (floats(g, 4), g.integers(0, 4, size=(2, 3))))
def local_arrays(x: Vector, N: IntMatrix) -> float:
    near, square, T = zeros(4), local(2, 3), zeros(2, 2, 2)
    for i in range(2):
        for j in range(3):
            square[i, j] = x[N[i, j]]
            near[N[i, j]] += 1.0
    fill(near, T[1])
    T[0, 1, 1] = near[0]
    return near[1] + square[1, 2] + T[1, 1, 0] + T[0, 0, 0] + len(T)
@compiled()
def fill(x: Vector, M: Matrix) -> None:
    """Writes; returns nothing."""
    for k in range(2):
        M[k, k] = x[k]
        M[1 - k, k] = -x[k]
    if x[0] > 1.0:
        return
    x[0] = 2.0
@compiled()
def row_of(M: Matrix, i: int) -> Vector:
    """A view of an argument can be returned."""
    return M[i]
@case(lambda g: (tame(g, (3, 4)), int(g.integers(0, 3))))
def returned_views(M: Matrix, i: int) -> float:
    row = row_of(M, i)
    row[0] = 4.0
    return row_of(M, 0)[1] + len(row_of(M, 1)) + row_of(M[1:], 1)[2]

# -- tuples and records ----------------------------------------------------------------------------------------------
class Inner(NamedTuple):
    weight: float
    flag: bool
    other: bool
    row: Vector


class Outer(NamedTuple):
    count: int
    first: Inner
    M: Matrix
    second: Inner
    on: bool


class Plain(NamedTuple):
    a: float
    b: float
def _records(g):
    def inner():
        return Inner(tame(g), bool(g.random() < 0.5), bool(g.random() < 0.5), tame(g, 3))

    return (Outer(int(g.integers(0, 5)), inner(), tame(g, (2, 2)), inner(), bool(g.random() < 0.5)), inner(), tame(g))
@compiled()
def inner_sum(r: Inner) -> float:
    return r.weight + r.row[0] + (1.0 if r.flag else 0.0) + (10.0 if r.other else 0.0)
@compiled(inline=False)
def swapped(r: Outer) -> Outer:
    return Outer(r.count + 1, r.second, r.M, first_of(r), not r.on)
@compiled()
def first_of(r: Outer) -> Inner:
    return r.first
@compiled()
def heavier(r: Inner, by: float) -> Inner:
    r = Inner(flag=r.other, other=r.flag, weight=r.weight + by, row=r.row)
    return r
@case(_records)
def records(r: Outer, i: Inner, x: float) -> float:
    s = swapped(swapped(r))
    t = swapped(r)
    s.first.row[1] = x
    count, first, _, second, on = t
    out = inner_sum(first) - 2.0 * inner_sum(t.second) + inner_sum(heavier(i, x)) * count
    if on and s.on == r.on:
        out += t.M[0, 1] + second.weight
    return out + inner_sum(r.first if on else i) + inner_sum(Inner(x, on, not on, i.row)) + swapped(r).first.weight
@case(_records)
def records_in_loops(r: Outer, i: Inner, x: float) -> float:
    """Records are values: copies in other records do not change."""
    kept, old, first = (i, 1), r, r.first
    before = i
    for k in range(4):
        old = Outer(k, before, r.M, Inner(x + k, k > 1, False, i.row), True)
        before = Inner(before.weight + k, not before.flag, k == 2, r.first.row)
        if k == 1:
            kept = (before, k)
            first = old.second
    first, before = before, first
    return inner_sum(kept[0]) + 3.0 * inner_sum(first) - inner_sum(before) + old.first.weight + kept[1]
@case(lambda g: (tame(g), tame(g), int(g.integers(0, 5))))
def tuples(a: float, b: float, n: int) -> float:
    t = (a, n, (b, n > 2))
    u = t if a > b else (b, 7, (a, False))
    (c, k, (d, flag)), e = u, t[2][0]
    p, q = Plain(a, b), Plain(b=a, a=n)
    p, q = q, p
    x, y = p
    c, d = d, c
    return c + 2.0 * d + k + flag + e + x * 3.0 + y + q.a * p.b + split(a, b)[1]
@compiled(inline=True)
def split(a: float, b: float) -> tuple[float, float]:
    if a < b:
        return a, 1
    return b, a - b

# -- lanes -----------------------------------------------------------------------------------------------------------
def _lanes(g):
    m = int(g.integers(1, 20))
    room = np.zeros(48)
    room[:m] = tame(g, m)
    rows = np.zeros((3, 32))
    rows[:, :m] = tame(g, (3, m))
    return room, rows, m, int(g.integers(-2, 5)), tame(g)
@compiled()
def twice(x: Lanes, f: float) -> Lanes:
    return x * f + x
@case(_lanes)
def lanes(x: Vector, M: Matrix, m: int, first: int, f: float) -> float:
    s = broadcast8(0.0)
    t = broadcast8(f)
    for i in range(0, m, 8):
        t = s
        s += f * load8(x, i) - load8(M, 1, i) * 2
        s -= twice(load8(M, 2, i + 1), 0.5)
        s *= broadcast8(1.25)
        store8(mask_range8(s, first - i, m - i), M, 0, i)
        store8(-t, x, i + 24)
    pick = s if f > 0.0 else t
    return sum8(s) + sum8(mask_range8(t, first, 3)) - sum8(pick)
@case(lambda g: (tame(g, (2, 3)), tame(g, 11)))
def lanes_at_the_end(M: Matrix, x: Vector) -> float:
    """Loads beyond the end of an array; Python reads zeros there."""
    return (
        sum8(mask_range8(load8(x, 5), 0, 6))
        + sum8(mask_range8(load8(M, 1, 0), 0, 3))
        + sum8(mask_range8(load8(x, 3), 1, 1))
    )
@case(lambda g: (tame(g, 40), int(g.integers(0, 8))))
def cache_lines(x: Vector, k: int) -> int:
    return alignment(x[k:])
@case(_lanes)
def lanes_by_lane(x: Vector, M: Matrix, m: int, first: int, f: float) -> float:
    s = broadcast8(0.0)
    for i in range(0, m, 8):
        a, b = load8(x, i), load8(M, 1, i)
        root = sqrt8(max8(a, broadcast8(0.0)) + min8(-b, broadcast8(0.0)) * min8(-b, broadcast8(0.0)))
        s += select8(a - b, a / (1.0 + root), f / (b * b + 1))
        s /= 1.0 + root
        store8(select8(b, broadcast8(f), root), x, i + 24)
    return sum8(s)

# -- kernels by address ----------------------------------------------------------------------------------------------
@ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.POINTER(ctypes.c_double)] * 3)
def scaled_sum(x, y, out):
    """Kernel that writes ``x[0] y + x[1]`` and returns how many entries of its two are negative."""
    for i in range(2):
        out[i] = x[0] * y[i] + x[1]
    return sum(out[i] < 0.0 for i in range(2))
@case(lambda g: (ctypes.cast(scaled_sum, ctypes.c_void_p).value, tame(g, 5), tame(g, (3, 2))))
def kernels(address: int, x: Vector, M: Matrix) -> float:
    call_kernel(address, x, M[0], M[1])
    x[0] = 0.5
    n = M[0, 0] + call_kernel(address, x[1:], M[1], M[2]) * M[2, 0] + M[2, 1]
    return n + call_kernel(address, x[3:5], vec_of(M, x), M[0])
@compiled()
def vec_of(M: Matrix, x: Vector) -> Vector:
    x[2] += M[1, 1]
    return x[1:3]

# -- loops over constant tuples --------------------------------------------------------------------------------------
@compiled(inline=False)
def spring(x: float, k: float) -> float:
    return -k * x
@compiled()
def cubic(x: float, k: float) -> float:
    return -k * x * x * x


class Law(NamedTuple):
    code: int
    force: object
    rate: float = 1.0


LAWS = Law(3, spring), Law(-1, cubic, 0.5), Law(7, spring, 2.0)
GAINS = 0.5, 2, -1.25
@case(lambda g: (floats(g), int(g.choice([3, -1, 7, 8]))))
def chosen_law(x: float, code: int) -> float:
    for law in LAWS:
        if code == law.code:
            return law.force(x, law.rate)
    return 0.0
@case(lambda g: (floats(g, 5), int(g.integers(0, 4))))
def loops_in_loops_over_constants(x: Vector, n: int) -> float:
    s = 0.0
    for gain in GAINS:
        for i in range(len(x)):
            if i > n:
                break
            for law in LAWS:
                y = law.force(x[i], law.rate * gain)
                x[i] += 0.01 * y
            s += gain * x[i]
    return s

# -- mutable records -------------------------------------------------------------------------------------------------
class Phase(enum.IntEnum):
    STANCE = 1
    SWING = 5


class Leg(Record):
    phase: Phase
    foot: Vec3
    load: float


class Walk(Record):
    ticks: int
    R: Mat3
    is_moving: bool
    P: Matrix
    left: Leg
    order: IntVector
    attitude: Quat
    right: Leg
    speed: float
def _walk(g, make=floats):
    walk = Walk.allocate(P=(3, 4), order=5)
    walk.ticks, walk.is_moving = int(g.integers(-5, 5)), bool(g.random() < 0.5)
    walk.R, walk.attitude, walk.speed = make(g, (3, 3)), make(g, 4), make(g)
    walk.P[:], walk.order[:] = make(g, (3, 4)), g.integers(-9, 9, 5)
    for leg in (walk.left, walk.right):
        leg.phase, leg.foot, leg.load = Phase(int(g.choice([1, 5]))), make(g, 3), make(g)
    return walk
@compiled(inline=False)
def lift_off(leg: Leg, dt: float) -> bool:
    """Moves a foot and changes its phase, within the caller's memory."""
    was_stance = leg.phase == Phase.STANCE
    leg.phase = Phase.SWING if was_stance else Phase.STANCE
    leg.foot += vec3(0.0, 0.0, dt)
    leg.load *= 0.5
    return was_stance
@case(lambda g: (_walk(g), int(g.choice([1, 5]))))
def converted_phase(walk: Walk, phase: int) -> int:
    walk.left.phase = Phase(phase)
    return walk.left.phase + Phase(walk.right.phase)
@compiled()
def heavier_leg(walk: Walk) -> Leg:
    return walk.left if walk.left.load > walk.right.load else walk.right
@case(lambda g: (_walk(g), floats(g)))
def record_numbers(walk: Walk, x: float) -> float:
    walk.ticks += 3
    walk.speed = x
    walk.speed += walk.ticks
    walk.is_moving = walk.speed > 0.0 and not walk.is_moving
    walk.order[walk.ticks % 5] = walk.ticks + (10 if walk.is_moving else 0)
    old, walk.speed = walk.speed, walk.P[1, 2]
    walk.left.load, walk.ticks = old, int(walk.is_moving)
    return old + walk.left.load + walk.ticks
@case(lambda g: (_walk(g, tame), tame(g)))
def record_vectors(walk: Walk, dt: float) -> float:
    v = walk.R @ walk.left.foot
    walk.right.foot = v
    walk.right.foot += walk.left.foot * dt
    walk.R = walk.R @ exp3(walk.right.foot)
    walk.left.foot = vec3(walk.right.foot[1], walk.right.foot[0], walk.attitude[3])
    walk.P[0, 0:3] = walk.R[2]
    walk.attitude = quat(walk.attitude[1], walk.attitude[0], dt, 1.0)
    return v @ walk.right.foot + norm(walk.left.foot)
@case(lambda g: (_walk(g), tame(g), int(g.integers(0, 2))))
def records_in_records(walk: Walk, dt: float, leg: int) -> int:
    moved = lift_off(walk.left if leg == 0 else walk.right, dt)
    heavy = heavier_leg(walk)
    heavy.foot = heavy.foot * 2.0
    heavy.phase = Phase.SWING
    walk.right.copy_from(walk.left)
    if lift_off(heavy, -dt):
        return 7
    return 100 * heavy.phase + 10 * int(moved) + walk.left.phase
@case(lambda g: (_walk(g), tame(g)))
def record_chosen_by_its_own_number(walk: Walk, dt: float) -> int:
    return int(lift_off(walk.left if walk.left.phase == Phase.STANCE else walk.right, dt)) + walk.left.phase
@case(lambda g: (_walk(g), _walk(g)))
def records_with_arrays_are_copied(walk: Walk, other: Walk) -> float:
    other.ticks += 1
    walk.copy_from(other)
    other.P[0, 0] += 1.0
    return walk.P[2, 3] + walk.order[4] + walk.left.load + walk.ticks

# -- small arrays ----------------------------------------------------------------------------------------------------
def _vectors(g, count, make=floats):
    return tuple(make(g, 3) for _ in range(count))
@case(lambda g: (*_vectors(g, 3), floats(g), int(g.integers(0, 3))))
def small_vectors(x: Vector, y: Vector, out: Vector, s: float, i: int) -> float:
    a, b = vec3(x), vec3(y[0], y[1], y[2:3][0])
    c = (a + b) * s - -a / s + 2 * b
    c += cross(a, b) * a[-1]
    out[:] = c
    out[0:3] += a if s > 0.0 else b
    first, _, last = c
    return a @ b + norm(c) + c[i] + first - last + (a - b)[1]
@case(lambda g: (floats(g, 6), floats(g, (4, 6)), floats(g, (2, 4, 6)), ints(g, 5), int(g.integers(0, 2)), floats(g)))
def array_assignments(x: Vector, M: Matrix, T: Tensor, n: IntVector, k: int, a: float) -> float:
    y = local(6)
    y[:] = x
    y[k : k + 3] = M[k, 1:4]
    M[2 * k] = y
    M[3] = a
    T[k] = M
    T[:] = 2 if a > 100.0 else k
    n[1:3] = n[3:5]
    n[:1] = k
    y[1:4] = n[:3]
    return y[0] + y[5]
@case(lambda g: (tame(g, 8), int(g.integers(1, 8))))
def local_array_that_is_first_used_conditionally(x: Vector, n: int) -> float:
    """A C compiler cannot determine that the first pass of the loop writes the array."""
    first = local(2)
    total = 0.0
    for i in range(n):
        k = 0
        while k < 2:
            if i == 0:
                first[k] = x[k]
            k += 1
        total += x[i]
    return total * first[0] + first[1]
@case(lambda g: (floats(g, (3, 3)), floats(g, (2, 3, 3)), floats(g, (4, 5)), floats(g, 3), floats(g)))
def small_matrices(M: Matrix, T: Tensor, P: Matrix, x: Vector, s: float) -> float:
    A, B = mat3(M), mat3(T[1])
    v = A @ vec3(x) + B.T @ vec3(1, s, 0.0)
    C = (A @ B - outer(v, A[0])) / s + -skew(v) * s + diagonal3(s)
    T[0] = C
    T[1, 2] = v
    M[:] -= mat3(v, C[1], x)
    set_block3(P, 1, 2, block3(P, 0, 1) + C)
    P[3, 1:4] = v
    return C[0, 2] + C[-1, -1] + v @ C[1] + inverse3(A)[0, 0]
@case(lambda g: (tame(g, 3), tame(g, (3, 3)), tame(g, 4), tame(g)))
def small_rotations(phi: Vector, R: Matrix, q: Vector, s: float) -> float:
    turn = exp3(vec3(phi) * s)
    R[:] = orthonormalized(turn @ rotation_of(quat(q)))
    back = quaternion_of(turn)
    q[:] = back
    phi[:] = left_jacobian3(vec3(phi)) @ vec3(phi)
    return back[3]
@compiled()
def axis_of(a: Vec3, far: bool) -> tuple[Vec3, float]:
    """Small arrays in tuples, in branches and in loops."""
    longest, at = a, 0.0
    if far:
        longest = a * 2.0
    for i in range(3):
        longest = cross(longest, vec3(0.0, at, 1.0)) if a[i] > 0.0 else longest
        at += a[i]
    return longest, at
@case(lambda g: (*_vectors(g, 2, tame), bool(g.integers(0, 2))))
def small_arrays_in_tuples(x: Vector, y: Vector, far: bool) -> float:
    a, at = axis_of(vec3(x), far)
    y[:] = a
    return at
@compiled()
def incremented(x: Vector) -> float:
    x[0] += 1.0
    return x[0]
@compiled(inline=False)
def weighted_sum(a: float, b: float, c: float) -> float:
    return a + 2.0 * b + 4.0 * c
@case(lambda g: (tame(g, 4), tame(g)))
def arguments_are_evaluated_from_left_to_right(x: Vector, s: float) -> float:
    return weighted_sum(incremented(x), s, x[0]) + weighted_sum(x[0], s, incremented(x))
@case(lambda g: (tame(g, 4),))
def counter_of_two_nested_loops(x: Vector) -> float:
    """The inner loop changes the counter for the rest of the body."""
    total = 0.0
    for i in range(4):
        for i in range(3):
            total += x[i]
        total += 10.0 * x[i]
    return total

# -- names that are reserved in C ------------------------------------------------------------------------------------
@case(lambda g: (tame(g), tame(g), tame(g, 3)))
def keywords(double: float, exp: float, register: Vector) -> float:
    """Comments may hold */ and /* and ??/ and "quotes"."""
    auto, y0, new, int_add, t1 = double, exp, 1, 2.0, 3.0
    static = math.exp(exp * 0.1)
    λ = 0.5
    for index in range(3):
        register[index] = register[index] * λ + auto
        new += index
    lanes_add, Vector_, printf = new, y0, t1
    return static + lanes_add + Vector_ * int_add + printf + math.sin(y0)
