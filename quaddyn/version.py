"""Version of the installed package, which the build takes from the last tag of the repository."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("quaddyn")
except PackageNotFoundError:  # source that is not installed
    __version__ = "0+unknown"
