"""The `quaddyn` command, also ``python -m quaddyn``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run it; an interrupt is 130 even while its parts are being imported."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
