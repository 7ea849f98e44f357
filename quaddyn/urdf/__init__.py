"""Safe XML -> `Tree`: what a URDF file says, before anything is built from it."""

from .meshes import MeshFinder
from .reader import parse
from .tree import Tree

__all__ = ["MeshFinder", "Tree", "parse"]
