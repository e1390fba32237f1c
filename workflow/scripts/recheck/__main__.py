"""``python -m recheck``: the command ``recheck``."""

import sys

from recheck.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
