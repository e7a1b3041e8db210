import pytest

from engines import Engines


@pytest.fixture
def engines(tiny_model, tmp_path):
    with Engines(tiny_model, tmp_path) as all_of_them:
        yield all_of_them
