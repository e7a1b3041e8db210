"""The tiny model in a folder of its own."""
import shutil

import pytest

from quantizer import DATA


@pytest.fixture
def place(tmp_path):
    """A folder with the tiny model, where the manifests' relative paths hold."""
    shutil.copytree(DATA / 'tiny', tmp_path / 'tiny')
    (tmp_path / 'OUT').mkdir()
    return tmp_path
