"""The page at / in Chromium, driven by the Python package playwright. Skipped by name without them:
tools/python_packages.sh fetches the package, ORCD_CHROMIUM names a browser that is not on the PATH."""
import os
import shutil
import sys
from pathlib import Path
from typing import Iterator

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from browser import FOREIGN_NAMES, Tab  # noqa: E402
from completion_worker import start  # noqa: E402
from worker_process import SANITIZED, Worker  # noqa: E402


@pytest.fixture(scope='session')
def worker(slow_model, tmp_path_factory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp('page')
    # One thread: a browser that gets no processor shows no stream.
    with start(slow_model, folder, '--slots', '2', '--cache-min-tokens', '1', '--threads', '1') as running:
        yield running


@pytest.fixture(scope='session')
def chromium():
    playwright = pytest.importorskip('playwright.sync_api', reason='the Python package playwright is missing')
    path = os.environ.get('ORCD_CHROMIUM') or shutil.which('chromium')
    if not path:
        pytest.skip('Chromium is not here: set ORCD_CHROMIUM')
    if SANITIZED:
        pytest.skip('the release build is what the page is tried with')
    with playwright.sync_playwright() as driver:
        names = ','.join(f'MAP {name} 127.0.0.1' for name in FOREIGN_NAMES)
        browser = driver.chromium.launch(executable_path=path,
                                         args=['--no-sandbox', f'--host-resolver-rules={names}'])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium, worker) -> Iterator[Tab]:
    """Ends clean: nothing on the console, nothing asked of another origin."""
    with Tab(chromium, worker.port) as opened:
        yield opened
        assert opened.errors == []
    worker.wait_idle()
