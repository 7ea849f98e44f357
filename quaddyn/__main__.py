"""``python -m quaddyn`` is the `quaddyn` command."""

from .cli import main

if __name__ == "__main__":
    main()
