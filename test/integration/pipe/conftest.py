"""Tiny models in folders, as the token pipe takes them."""
import shutil

import pytest

from pipe_client import Pipe, config_of


@pytest.fixture(scope='session')
def folder(models, tmp_path_factory):
    """folder(name, *options): a folder with one tiny model, written once per session."""
    place = tmp_path_factory.mktemp('folders')

    def write(name: str, *options: str):
        path = place / name
        if not path.exists():
            path.mkdir()
            shutil.copy(models('pipe-' + name, *options), path / 'model.gguf')
        return path
    return write


@pytest.fixture(scope='session')
def tiny(folder):
    return folder('tiny', '--context', '256')


@pytest.fixture(scope='session')
def config(tiny):
    """With one EOS that the model does not choose soon."""
    return config_of(tiny / 'model.gguf', [302])


@pytest.fixture
def pipe(tiny, config):
    with Pipe(tiny, config) as running:
        yield running
