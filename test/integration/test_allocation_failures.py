"""Every allocation may fail: the worker ends with a sentence or goes on, and never with a signal."""
import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from failing_worker import PRELOADED, judge, run_once
from worker_process import SANITIZED

# All places with ORCD_ALLOCATION_PLACES=all; otherwise this many, drawn anew for each seed.
PLACES = os.environ.get('ORCD_ALLOCATION_PLACES', '120')
SEED = os.environ.get('ORCD_ALLOCATION_SEED', '1')
# One failure alone, and a shortage that lasts while the first one is dealt with.
BURSTS = (1, 40)

pytestmark = pytest.mark.skipif(SANITIZED, reason='a sanitizer has an allocator of its own')


@pytest.fixture(scope='module')
def places(tiny_model, tmp_path_factory):
    path = tmp_path_factory.mktemp('places') / 'list'
    outcome = run_once(tiny_model, {'LD_PRELOAD': str(PRELOADED), 'ORCD_ALLOCATION_LIST': str(path)})
    assert outcome.code == 0 and None not in outcome.texts, outcome
    found = sorted(path.read_text().split())
    assert len(found) > 500, 'the allocations of start, stream and stop were listed'
    if PLACES != 'all':
        found = random.Random(SEED).sample(found, int(PLACES))
    return found, outcome.texts[0]


@pytest.mark.parametrize('burst', BURSTS)
def test_any_allocation_may_fail(tiny_model, places, burst, tmp_path):
    chosen, text = places

    def attempt(place):
        trace = tmp_path / place
        outcome = run_once(tiny_model, {
            'LD_PRELOAD': str(PRELOADED), 'ORCD_ALLOCATION_FAIL': place,
            'ORCD_ALLOCATION_BURST': str(burst), 'ORCD_ALLOCATION_TRACE': str(trace)})
        wrong = judge(outcome, text)
        where = trace.read_text() if trace.exists() else ''
        failed = trace.exists()
        trace.unlink(missing_ok=True)
        return failed, [(place, wrong, where, outcome.log[-3:])] if wrong else []
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(attempt, chosen))
    wrong = [w for _, found in results for w in found]
    assert not wrong, f'{len(wrong)} of {len(chosen)}: ' + '\n'.join(map(str, wrong[:5]))
    assert sum(failed for failed, _ in results) > 0.8 * len(chosen), 'the places were met again'
