"""The `quaddyn` command, also ``python -m quaddyn``."""

from __future__ import annotations

import sys

from .version import __version__


def main() -> None:
    """Runs the command; an interrupt is exit code 130 even while its parts are being imported."""
    if sys.argv[1:] == ["--version"]:  # without the import of all subcommands
        print(__version__)
        return
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
