"""The memory that one compiled solve works in: matrices, vectors and integers, all of one size, known by their numbers.

Functions are handed three arrays, B, U and N, and take from them what they need, ``R = B[RR]``.  Matrices are stored
transposed, ``R[j, i]`` being column j of row i: the rows lie side by side, and inner loops run along them.
"""

from __future__ import annotations

# Matrices: basis of the freedom, reflectors, a level's rows in the basis, rows being factored, work of least squares;
# inequalities, held ones, all in the basis and of equal length; of the guess: its normals, their triangle, the levels'
# triangles; the rows of level k as they were given, at MM + k.
QQ, VV, MZ, RR, TT, CT, HH, CZ, CE, JJ, RG, WW, MM = range(13)
MATRICES = 13

# Vectors: work of `factor` (3), and one more; of a level's rows: wanted value, length, value at the start; of the rows
# being factored: length and right-hand side; of the inequalities: value at the start, bounds and length (four in this
# order), the same with equal lengths; of held ones: length and right-hand side; values at the beginning and at the end
# of a step; zeros.
LEFT, TARGET, MLEN, R0, LENGTH, RHS, Y0, LO, HI, CLEN, YE, LE, HE, ONES, HLEN, HRHS, START, END, ZERO = (
    0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
)  # fmt: skip
# Unknowns: of a triangle, gradient, step within the freedom and next one, the solution of the equalities alone; of the
# guess: its multipliers, work (3).
YY, GG, ZZ, ZN, PLAIN, MU, ALONG, TWO = 22, 23, 24, 25, 26, 27, 28, 29
# Bounds as they were given, since a level that cannot keep its own moves them.
LOWER, UPPER = 31, 32
# By how much multipliers have the wrong sign.
WRONG = 33
# Of the rows of level k as they were given: wanted values, and beside them lengths, at GIVEN + 2 k.
GIVEN = 34
VECTORS = 36

# Integers: pivots and order of rows; what an inequality is to a level, whether it is an equality; indices of the rows
# being factored and of the guess's active ones; working set of the guess; how often a level has let a row go for a
# multiplier of nearly the right sign; how many rows of each level there are, -1 where none has been looked at.
PIVOTS, ORDER, ROLE, EQUAL, INDEX, ACTIVE, HOLD, LOOKED, COUNT = range(9)
INTEGERS = 9

# What an inequality is to the level being solved.
LATER, LIMIT, OWN, FIXED = 0, 1, 2, 3

#: Limits count as kept to this share of the size of their terms.
KEPT = 1e-12
#: And as violated for good, or as not reached, beyond this share.
VIOLATED = 1e-10

#: Share of the largest conceivable gradient that the unit of `kkt` does not fall below.
FLOOR = 1e-4

# Slots of `stats`; from RANKS on, ranks of all levels, then their kkt.
ENDED, PATH, ITERATIONS, WORST, REACH, RANKS = 0, 1, 2, 3, 4, 5

#: Signatures: of B, U, N; and of a problem (A, b, w, C, ms, ps).
WORK = "f8[:,:,::1], f8[:,::1], i8[:,::1]"
PROBLEM = "f8[:,::1], f8[::1], f8[::1], f8[:,::1], i8[::1], i8[::1]"


def most_rows(n: int, m: int, P: int, K: int) -> int:
    """Numbers of a vector, for n unknowns, K levels of at most m rows of any kind, P inequalities.

    Lanes may begin at any of the first n and run on.
    """
    return 8 * ((max(max(m, n) + n + P, n + 7, K + 1) + 7) // 8)


def float_work(n: int, m: int, P: int, K: int) -> int:
    """How many floats `descend` wants as work, for K levels."""
    vectors = (MATRICES + K) * (n + 2) + VECTORS + 2 * K
    return 8 + vectors * most_rows(n, m, P, K) + n + (K + 1) * P + RANKS + 2 * K + 2


def int_work(n: int, m: int, P: int, K: int) -> int:
    """How many integers `descend` wants as work."""
    return INTEGERS * most_rows(n, m, P, K) + (K + 1) * P
