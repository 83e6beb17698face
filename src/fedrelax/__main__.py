"""``python -m fedrelax`` is the command ``fedrelax``."""

from fedrelax.cli import main

if __name__ == "__main__":
    main()
