"""A share of the test files for where all of them take too long: every Nth, others each time.

The turn is the number of commits, so that a change is tried with the same files again, and N changes in a row
with all of them.
"""
import subprocess
from pathlib import Path
from typing import List, Tuple


def turn_of(folder: Path) -> int:
    asked = subprocess.run(['git', 'rev-list', '--count', 'HEAD'], cwd=folder, capture_output=True, text=True)
    return int(asked.stdout) if asked.returncode == 0 else 0


def files_of(options: List[str]) -> List[str]:
    """The test files in the folders that pytest's options name, less those that they ignore."""
    ignored = [Path(option.removeprefix('--ignore=')).resolve()
               for option in options if option.startswith('--ignore=')]
    files = set()
    for folder in (Path(option) for option in options if Path(option).is_dir()):
        files.update(file.resolve() for file in folder.rglob('test_*.py'))
    return sorted(str(file) for file in files if not any(file.is_relative_to(one) for one in ignored))


def share_of(options: List[str], count: int, turn: int) -> Tuple[List[str], List[str]]:
    """The options with every `count`th file in place of the folders, and the files that are left out."""
    files = files_of(options)
    if count <= 1 or len(files) < count:
        return options, []
    taken = files[turn % count::count]
    return ([option for option in options if not Path(option).is_dir()] + taken,
            [file for file in files if file not in taken])
