"""Requests and the shapes of their answers, as tables: what is asked, of which worker, and what must be true
of the answer."""

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

ANY = object()  # the member exists, whatever it is


@dataclass
class Case:
    """One request and what its answer must be. `reason` says why this project answers otherwise, if it
    does."""

    suite: str
    name: str
    path: str
    body: Any = None
    expect: Dict[str, Any] = field(default_factory=dict)
    status: Tuple[int, ...] = (200,)
    worker: str = 'text'
    method: str = 'POST'
    headers: Dict[str, str] = field(default_factory=dict)
    stream: bool = False  # `expect` is then true of the last object, `first` of the first, `each` of all
    first: Dict[str, Any] = field(default_factory=dict)
    each: Dict[str, Any] = field(default_factory=dict)
    reason: Optional[str] = None

    def __str__(self) -> str:
        return f'{self.suite}: {self.name}'


def members(value: Any, path: str) -> List[Any]:
    """The members that a path such as 'choices.*.message.role' leads to; KeyError where there is none."""
    found = [value]
    for step in path.split('.') if path else []:
        if step == '*':
            found = [one for each in found for one in each]
        else:
            found = [each[int(step)] if isinstance(each, list) else each[step] for each in found]
    return found


def fault(value: Any, path: str, wanted: Any) -> Optional[str]:
    """What is wrong with the members at that path; None if nothing."""
    if path.startswith('len '):
        lengths = [len(one) for one in members(value, path[4:])]
        return None if all(n == wanted for n in lengths) else f'{path} is {lengths}, not {wanted}'
    if path.startswith('no '):
        try:
            return f'{path[3:]} is there: {members(value, path[3:])}' if members(value, path[3:]) else None
        except (KeyError, IndexError, TypeError):
            return None
    try:
        found = members(value, path)
    except (KeyError, IndexError, TypeError):
        return f'{path} is missing in {str(value)[:400]}'
    for one in found:
        if not fits(one, wanted):
            return f'{path} is {one!r}, which is not {getattr(wanted, "__name__", wanted)!r}'
    return None


def fits(value: Any, wanted: Any) -> bool:
    if wanted is ANY:
        return True
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.search(value) is not None
    if isinstance(wanted, type):
        return isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))
    if callable(wanted):
        return bool(wanted(value))
    return value == wanted


def faults(value: Any, expect: Dict[str, Any]) -> List[str]:
    return [f for f in (fault(value, path, wanted) for path, wanted in expect.items()) if f]
