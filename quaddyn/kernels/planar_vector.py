"""Vectors in a plane over expressions, multiplied like complex numbers: a unit one turns what it multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from .graph import Expr, Graph


@dataclass(frozen=True, slots=True)
class Planar:
    """``x + i y``."""

    x: Expr
    y: Expr

    @staticmethod
    def of(graph: Graph, z: complex) -> Planar:
        """A constant."""
        return Planar(graph.constant(z.real), graph.constant(z.imag))

    def __add__(self, other: Planar) -> Planar:
        return Planar(self.x + other.x, self.y + other.y)

    def __neg__(self) -> Planar:
        return Planar(-self.x, -self.y)

    def __mul__(self, other: Planar | complex) -> Planar:
        x, y = (other.x, other.y) if isinstance(other, Planar) else (other.real, other.imag)
        return Planar(self.x * x - self.y * y, self.x * y + self.y * x)

    def scaled(self, factor: Expr | float) -> Planar:
        """A multiple."""
        return Planar(self.x * factor, self.y * factor)

    @property
    def conjugate(self) -> Planar:
        """Mirrored in the x axis: of a unit one the inverse."""
        return Planar(self.x, -self.y)

    def dot(self, other: Planar) -> Expr:
        """The scalar product."""
        return self.x * other.x + self.y * other.y

    def cross(self, other: Planar) -> Expr:
        """The component of the vector product that points out of the plane."""
        return self.x * other.y - self.y * other.x
