"""What `cmake --install` writes: links between the documents hold, and what the unit names is there."""
import re
import subprocess
from pathlib import Path

import pytest

from worker_process import BUILD, PROJECT


@pytest.fixture(scope='module')
def prefix(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('installed')
    subprocess.run(['cmake', '--install', str(BUILD), '--prefix', str(folder)], check=True, timeout=120,
                   stdout=subprocess.PIPE)
    return folder


def dead_links(folder: Path) -> list:
    dead = []
    for page in folder.rglob('*.md'):
        for target in re.findall(r'\]\(([^)\s]+)\)', page.read_text()):
            name, _, anchor = target.partition('#')
            if re.match(r'[a-z]+:', target):
                continue
            at = page.parent / name if name else page
            if not at.exists():
                dead.append(f'{page.name}: {target}')
            elif anchor and anchor not in anchors(at):
                dead.append(f'{page.name}: {target} (no such heading)')
    return dead


def anchors(page: Path) -> set:
    headings = re.findall(r'^#+ (.*)$', page.read_text(), re.M)
    return {re.sub(r'[^\w\- ]', '', h.lower()).replace(' ', '-') for h in headings}


def test_links_between_installed_documents_hold(prefix):
    pages = [p.name for p in prefix.rglob('*.md')]
    assert {'README.md', 'CONTRIBUTING.md', 'api.md', 'operations.md'} <= set(pages), pages
    assert not dead_links(prefix)


def test_links_between_documents_of_the_source_hold():
    folders = [PROJECT / 'docs', PROJECT / 'kernels']
    assert not [link for folder in folders for link in dead_links(folder)]


def test_the_check_of_links_finds_dead_ones(tmp_path):
    (tmp_path / 'a.md').write_text('# One thing\n[x](b.md) [y](#one-thing) [z](#two) [w](https://w.example/)')
    assert dead_links(tmp_path) == ['a.md: b.md', 'a.md: #two (no such heading)']


def test_every_file_that_the_service_needs_is_installed(prefix):
    unit = next(prefix.rglob('worker-orcd.service')).read_text()
    documentation = re.search(r'^Documentation=.*file://(\S+)$', unit, re.M).group(1)
    program, configuration = re.search(r'^ExecStart=(\S+) --config (\S+)$', unit, re.M).groups()
    installed = {p.name for p in prefix.rglob('*') if p.is_file()}
    for path in (documentation, program, configuration):
        assert Path(path).name in installed, path
    assert (next(prefix.rglob('doc')) / 'worker-orcd' / 'README.md').exists()
