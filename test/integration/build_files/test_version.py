"""The version of a build: what cmake/version.sh makes of a folder, and that all that is built has it."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from worker_process import BUILD, PROJECT, Worker

SCRIPT = PROJECT / 'cmake' / 'version.sh'
WRITER = PROJECT / 'cmake' / 'write_version.cmake'
VERSION_FILE = BUILD / 'version.txt'
# Nothing of the tester's own.
GIT = ('git', '-c', 'user.name=test', '-c', 'user.email=test@localhost', '-c', 'commit.gpgsign=false')


def git(folder: Path, *words: str) -> str:
    return subprocess.run([*GIT, *words], cwd=folder, check=True, stdout=subprocess.PIPE,
                          timeout=60).stdout.decode().strip()


def commit(folder: Path, message: str) -> str:
    git(folder, 'commit', '--quiet', '--allow-empty', '--all', '-m', message)
    return git(folder, 'rev-parse', 'HEAD')[:12]


def version(folder: Path, **environment: str) -> str:
    done = subprocess.run(['sh', SCRIPT, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                          env={'PATH': '/usr/bin:/bin', 'HOME': str(folder.parent), **environment})
    assert done.returncode == 0 and not done.stderr, done.stderr.decode()
    return done.stdout.decode().rstrip('\n')


@pytest.fixture
def tree(tmp_path) -> Path:
    """Sources without a repository."""
    folder = tmp_path / 'tree'
    folder.mkdir()
    (folder / 'VERSION').write_text('1.2.3\n')
    return folder


@pytest.fixture
def clone(tree) -> Path:
    git(tree, 'init', '--quiet')
    git(tree, 'add', 'VERSION')
    commit(tree, 'first')
    return tree


def test_a_repository_counts_its_commits(clone):
    assert version(clone) == f'1.2.3+1.g{git(clone, "rev-parse", "HEAD")[:12]}'
    name = commit(clone, 'second')
    assert version(clone) == f'1.2.3+2.g{name}'
    git(clone, 'checkout', '--quiet', '-b', 'beside', 'HEAD~1')
    commit(clone, 'beside')
    git(clone, 'merge', '--quiet', '--no-edit', '@{-1}')
    assert version(clone).startswith('1.2.3+4.g'), 'what a merge brings counts'


def test_a_working_tree_of_a_repository_says_the_same(clone, tmp_path):
    git(clone, 'worktree', 'add', '--quiet', '--detach', str(tmp_path / 'beside'))
    assert version(tmp_path / 'beside') == version(clone)


def test_what_differs_from_the_commit_is_told(clone):
    clean = version(clone)
    (clone / 'new.cpp').write_text('int x;\n')
    assert version(clone) == clean, 'what git does not know is nobody\'s change'
    git(clone, 'add', 'new.cpp')
    assert version(clone) == clean + '.dirty'
    name = commit(clone, 'second')
    assert version(clone) == f'1.2.3+2.g{name}'
    (clone / 'new.cpp').write_text('int y;\n')
    assert version(clone).endswith('.dirty')
    (clone / 'new.cpp').write_text('int x;\n')
    assert not version(clone).endswith('.dirty'), 'as it was, although written again'
    (clone / 'new.cpp').unlink()
    assert version(clone).endswith('.dirty')


def test_a_cut_off_history_has_no_number(clone, tmp_path):
    name = commit(clone, 'second')
    git(tmp_path, 'clone', '--quiet', '--depth', '1', f'file://{clone}', 'shallow')
    assert version(tmp_path / 'shallow') == f'1.2.3+0.g{name}'
    (tmp_path / 'shallow' / 'VERSION').write_text('1.2.4\n')
    assert version(tmp_path / 'shallow') == f'1.2.4+0.g{name}.dirty'


def test_without_a_repository_nothing_is_known(tree):
    assert version(tree) == '1.2.3+0.unknown'


def test_a_repository_without_a_commit_says_nothing(tree):
    git(tree, 'init', '--quiet')
    assert version(tree) == '1.2.3+0.unknown'


def test_without_git_nothing_is_known(clone, tmp_path):
    tools = tmp_path / 'tools'
    tools.mkdir()
    for name in ('sh', 'head', 'cat'):
        (tools / name).symlink_to(shutil.which(name))
    assert version(clone, PATH=str(tools)) == '1.2.3+0.unknown'


def test_a_repository_that_git_refuses_says_nothing(clone):
    assert version(clone, GIT_TEST_ASSUME_DIFFERENT_OWNER='1') == '1.2.3+0.unknown'


def test_a_stamped_file_speaks_for_an_exported_tree(clone, tmp_path):
    exported = tmp_path / 'exported'
    exported.mkdir()
    shutil.copy(clone / 'VERSION', exported)
    (exported / '.version').write_text(version(clone) + '\n')
    assert version(exported) == version(clone) != '1.2.3+0.unknown'
    # As Conan's build folder lies below the checkout.
    inside = clone / 'build' / 'exported'
    shutil.copytree(exported, inside)
    (inside / '.version').write_text('1.2.3+7.gabc\n')
    assert version(inside) == '1.2.3+7.gabc'
    (inside / '.version').unlink()
    assert version(inside) == '1.2.3+0.unknown', 'the repository around it is another project\'s'


def test_the_repository_is_asked_before_a_stamped_file(clone):
    said = version(clone)
    (clone / '.version').write_text('1.2.3+7.gabc\n')
    assert version(clone) == said
    assert version(clone, GIT_TEST_ASSUME_DIFFERENT_OWNER='1') == '1.2.3+7.gabc'


@pytest.mark.parametrize('stamped', ['', '1.2.3', '1.2.3+', '1.2.4+7.gabc', '1.2.3+7.g"abc',
                                     '1.2.3+7\n1.2.3+8'])
def test_a_stamped_file_that_is_none_is_refused(tree, stamped):
    (tree / '.version').write_text(stamped)
    done = subprocess.run(['sh', SCRIPT, tree], capture_output=True, timeout=60)
    assert done.returncode == 1 and b'.version says' in done.stderr and not done.stdout


ORDERED = ['1.2.3', '1.2.3+0.gd77fcfd1a2b3', '1.2.3+9.gffffffffffff', '1.2.3+690.gd77fcfd1a2b3',
           '1.2.3+690.gd77fcfd1a2b3.dirty', '1.2.3+1000.g000000000000', '1.2.4', '1.2.4+1.g000000000000',
           '1.10.0+1.g000000000000']


@pytest.mark.skipif(not shutil.which('dpkg'), reason='dpkg is not installed')
@pytest.mark.parametrize('older, newer', zip(ORDERED, ORDERED[1:]))
def test_debian_puts_them_in_their_order(older, newer):
    """For Conan tools/conan_check.sh does."""
    subprocess.run(['dpkg', '--compare-versions', older, 'lt', newer], check=True, timeout=60)
    unknown = '1.2.3+0.unknown'
    subprocess.run(['dpkg', '--compare-versions', unknown, 'lt', '1.2.3+1.g000000000000'], check=True,
                   timeout=60)


def write(folder: Path) -> tuple:
    """What the build runs each time: the files and when they were written."""
    files = folder.parent / 'version.txt', folder.parent / 'version.cpp'
    template = PROJECT / 'app' / 'version' / 'version.cpp.in'
    subprocess.run(['cmake', f'-DSOURCES={folder}', f'-DTEXT={files[0]}', f'-DTEMPLATE={template}',
                    f'-DSOURCE={files[1]}', '-P', WRITER], check=True, timeout=60)
    said = files[0].read_text().strip()
    assert f'return "{said}";' in files[1].read_text()
    return said, [file.stat().st_mtime_ns for file in files]


def test_nothing_is_written_until_there_is_another_commit(clone):
    first = write(clone)
    assert first[0] == version(clone) and write(clone) == first
    name = commit(clone, 'second')
    second = write(clone)
    assert second[0] == f'1.2.3+2.g{name}' and all(a != b for a, b in zip(first[1], second[1]))


def test_no_source_is_compiled_with_the_version_in_its_command():
    said = VERSION_FILE.read_text().strip()
    commands = [entry['command'] for entry in json.loads((BUILD / 'compile_commands.json').read_text())]
    assert len(commands) > 100 and re.fullmatch(r'\d+\.\d+\.\d+\+\d+\.\w+(\.dirty)?', said), said
    assert not [c for c in commands if said in c or re.search(r'-D\w*VERSION\b', c)]


def test_programs_health_metrics_and_log_say_the_version_of_the_build(tiny_model):
    said = VERSION_FILE.read_text().strip()
    for name in ('worker-orcd', 'worker-orcd-decoder', 'worker-orcd-inspect', 'worker-orcd-holder',
                 'worker-orcd-pod', 'trillim-quantize', 'inference'):
        printed = subprocess.run([BUILD / name, '--version'], check=True, stdout=subprocess.PIPE, timeout=60)
        assert printed.stdout.decode().splitlines()[0] == f'{name} {said}'
    with Worker('--model', tiny_model) as worker:
        worker.wait_event('ready')
        assert worker.get('/health').json()['version'] == said
        assert f'version="{said}"' in next(line for line in worker.get('/metrics').body.decode().splitlines()
                                           if line.startswith('worker_info{'))
        (told,) = worker.events('startup')
        assert told['version'] == said
