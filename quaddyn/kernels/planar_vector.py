"""Planar vectors over expressions that multiply like complex numbers: multiplication by a unit vector rotates."""

from __future__ import annotations

from dataclasses import dataclass

from .graph import Expr, Graph


@dataclass(frozen=True, slots=True)
class PlanarVector:
    """Planar vector ``x + i y`` of two expressions."""

    x: Expr
    y: Expr

    @staticmethod
    def of(graph: Graph, z: complex) -> PlanarVector:
        """Returns a constant vector."""
        return PlanarVector(graph.constant(z.real), graph.constant(z.imag))

    def __add__(self, other: PlanarVector) -> PlanarVector:
        return PlanarVector(self.x + other.x, self.y + other.y)

    def __neg__(self) -> PlanarVector:
        return PlanarVector(-self.x, -self.y)

    def __mul__(self, other: PlanarVector | complex) -> PlanarVector:
        x, y = (other.x, other.y) if isinstance(other, PlanarVector) else (other.real, other.imag)
        return PlanarVector(self.x * x - self.y * y, self.x * y + self.y * x)

    def scaled(self, factor: Expr | float) -> PlanarVector:
        """Returns a multiple."""
        return PlanarVector(self.x * factor, self.y * factor)

    @property
    def conjugate(self) -> PlanarVector:
        """Reflection at the x axis: the inverse of a unit vector."""
        return PlanarVector(self.x, -self.y)

    def dot(self, other: PlanarVector) -> Expr:
        """Returns the scalar product."""
        return self.x * other.x + self.y * other.y

    def cross(self, other: PlanarVector) -> Expr:
        """Returns the component of the vector product normal to the plane."""
        return self.x * other.y - self.y * other.x
