from __future__ import annotations

import sys
from pathlib import Path

from tests.app.gold_rows import write

write(Path(sys.argv[1]))
