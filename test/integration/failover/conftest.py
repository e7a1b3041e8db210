import pytest

from engines import Engines
from holders import Held


@pytest.fixture
def engines(tiny_model, tmp_path):
    with Engines(tiny_model, tmp_path) as all_of_them:
        yield all_of_them


@pytest.fixture
def held(tiny_model, tmp_path):
    """Engines whose connections come from a holder, which runs."""
    with Held(tiny_model, tmp_path) as all_of_them:
        all_of_them.start_holder()
        yield all_of_them
