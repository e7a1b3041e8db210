"""Files of a host that is gone, which hold whoever opens them (test/faults/held_file.cpp)."""
import os
from pathlib import Path

import pytest

from worker_process import BUILD, SANITIZED

ENVIRONMENT = {'LD_PRELOAD': str(BUILD / 'libheld_file.so')}
holds_files = pytest.mark.skipif(SANITIZED, reason='a sanitizer comes before all that is preloaded')


class HeldFile:
    """From now on each open of the file waits, in a process with the ENVIRONMENT, until it is let go. Who
    waits gets the file that is there now, whatever is put in its place meanwhile."""

    def __init__(self, path: Path):
        self.pipe = Path(f'{path}.held')
        os.mkfifo(self.pipe)

    def let_next_pass(self) -> None:
        """Who opens the file from now on does not wait; who waits goes on waiting."""
        self.pipe = self.pipe.rename(f'{self.pipe}.still')

    def let_go(self) -> None:
        with open(self.pipe, 'wb'):
            self.pipe.unlink()
