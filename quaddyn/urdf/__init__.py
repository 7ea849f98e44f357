"""Safe reader of URDF and MJCF files: returns their content as a `Tree`, from which robots are built."""

from .meshes import MeshFinder
from .reader import parse
from .tree import Tree

__all__ = ["MeshFinder", "Tree", "parse"]
