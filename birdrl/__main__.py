"""`python -m birdrl` is the command `birdrl`, run from the code of the current folder."""

import sys

from birdrl.cli import main

sys.exit(main())
