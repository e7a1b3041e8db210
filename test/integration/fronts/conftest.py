import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / 'failover'))

from fronts import FRONTS, Site  # noqa: E402


@pytest.fixture(scope='session')
def model(models):
    """Half a millisecond a token: jobs of seconds, and prompts that are read at once."""
    return models('front', '--layers', '4', '--embedding', '256', '--heads', '4', '--kv-heads', '2',
                  '--ffn', '512', '--context', '8192', '--type', 'Q8_0')


@pytest.fixture(scope='module', params=FRONTS)
def site(request, model, tmp_path_factory):
    """Each proxy in turn, with two workers of two slots and a queue of two."""
    all_of_it = Site(request.param, model, tmp_path_factory.mktemp('front'), '--slots', '2',
                     '--max-queue', '2', '--kv-tokens', '65536')
    yield all_of_it
    all_of_it.end()
