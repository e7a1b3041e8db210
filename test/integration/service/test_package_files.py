"""What a package has besides programs: manual pages and completions out of --help, and the list of parts."""
import gzip
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from worker_process import BINARY, BUILD, PROJECT, SANITIZED

MORE = ('worker-orcd-inspect', 'trillim-quantize', 'inference')
FOLDER = PROJECT / 'etc' / 'package'


def load(name):
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location(name, FOLDER / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


documents = load('write_documents')
parts = load('write_sbom')


@pytest.fixture(scope='module')
def help_text():
    return subprocess.run([BINARY, '--help'], stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp('documents')
    documents.main(folder, [BINARY, *(BUILD / name for name in MORE)])
    return folder


def options_of(text):
    return set(re.findall(r'^  (?:-\w \[ )?(--[\w-]+)', text, re.M))


def test_every_option_is_read_with_its_text(help_text):
    read = documents.read_help(help_text)
    options = [option for group in read.groups.values() for option in group]
    assert {option.names[-1] for option in options} == options_of(help_text) and len(options) > 60
    assert all(option.text for option in options)
    assert 'Exit codes: 0 stopped on request' in read.closing


def test_the_manual_has_every_option(help_text, written):
    page = gzip.decompress((written / 'worker-orcd.1.gz').read_bytes()).decode().replace('\\-', '-')
    assert all(f'\\fB{option}\\fR' in page for option in options_of(help_text))


@pytest.mark.skipif(not shutil.which('groff'), reason='groff is not installed')
@pytest.mark.parametrize('name', ['worker-orcd', *MORE])
def test_the_manual_is_well_formed(written, name):
    page = gzip.decompress((written / f'{name}.1.gz').read_bytes())
    run = subprocess.run(['groff', '-man', '-ww', '-z', '-Tascii'], input=page, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, timeout=60)
    assert run.returncode == 0 and not run.stderr, run.stderr.decode()


def completed(written, *words):
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _worker_orcd 2>/dev/null; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    run = subprocess.run(['bash', '-c', script, 'bash', written / 'worker-orcd.bash', *words],
                         stdout=subprocess.PIPE, check=True, timeout=60)
    return run.stdout.decode().split()


def test_bash_completes_options_and_words(written, tmp_path):
    assert completed(written, 'worker-orcd', '--drain') == ['--drain-timeout']
    assert completed(written, 'worker-orcd', '--backend', '') == ['cuda', 'host']
    assert completed(written, 'worker-orcd', '--port', '') == []
    (tmp_path / 'model.gguf').touch()
    assert completed(written, 'worker-orcd', '--model', f'{tmp_path}/mo') == [f'{tmp_path}/model.gguf']


@pytest.mark.skipif(not shutil.which('zsh'), reason='zsh is not installed')
def test_zsh_can_read_its_completion(written):
    subprocess.run(['zsh', '-n', written / '_worker-orcd'], check=True, timeout=60)


@pytest.mark.parametrize('name', ['postinst', 'prerm', 'postrm'])
def test_maintainer_scripts_are_shell(name):
    subprocess.run(['sh', '-n', FOLDER / name], check=True, timeout=60)


needs_dpkg = pytest.mark.skipif(not shutil.which('dpkg-query') or not shutil.which('ninja') or SANITIZED,
                                reason='needs dpkg and ninja, and the shipped build')


@needs_dpkg
def test_the_list_of_parts_is_of_what_is_linked(tmp_path):
    sbom = (BUILD / 'etc' / 'package' / 'worker-orcd.spdx.json')
    if not sbom.exists():
        pytest.skip('the target "parts" was not built')
    listed = json.loads(sbom.read_text())
    assert listed['spdxVersion'] == 'SPDX-2.3' and listed['dataLicense'] == 'CC0-1.0'
    names = {package['name']: package for package in listed['packages']}
    assert {'worker-orcd', 'libutf8proc-dev', 'libssl3', 'libsystemd0'} <= set(names)
    assert any(name.startswith('libboost-json') for name in names)
    assert all(package['licenseConcluded'] != 'NOASSERTION' for package in names.values())
    known = {package['SPDXID'] for package in names.values()} | {'SPDXRef-DOCUMENT'}
    for relation in listed['relationships']:
        assert relation['spdxElementId'] in known and relation['relatedSpdxElement'] in known


def test_the_same_parts_give_the_same_document_and_others_another():
    boost = parts.Part('libboost-json1.81-dev', '1.81.0-5', 'boost1.81', True)
    first, again = parts.document('1.0', [boost]), parts.document('1.0', [boost])
    newer = parts.document('1.0', [boost._replace(version='1.81.0-6')])
    assert first == again and first['documentNamespace'] != newer['documentNamespace']


def installed_by(build, folder):
    """The files that are installed, without the prefix; below the folder, whatever the prefix is."""
    subprocess.run(['cmake', '--install', build], check=True, stdout=subprocess.DEVNULL, timeout=120,
                   env={**os.environ, 'DESTDIR': str(folder)})
    paths = (str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file())
    return {re.sub(r'^usr/(local/)?', '', path) for path in paths}


@pytest.mark.skipif(SANITIZED, reason='the shipped build is installed')
def test_an_installation_has_what_was_built(tmp_path):
    files = installed_by(BUILD, tmp_path)
    assert {'bin/worker-orcd', 'bin/trillim-inference', *(f'bin/{name}' for name in MORE),
            'lib/systemd/system/worker-orcd@.service', 'lib/sysusers.d/worker-orcd.conf',
            'etc/worker-orcd/worker-orcd.conf', 'share/doc/worker-orcd/docs/operations.md'} <= files
    programs = {name for name in files if name.startswith('bin/')}
    ours = ('bin/worker-orcd', 'bin/trillim-', 'bin/inference')
    assert all(name.startswith(ours) for name in programs), programs
    assert not any(name.endswith('.a') for name in files), files


@pytest.mark.skipif(SANITIZED, reason='about CMake: once is enough')
def test_an_installation_without_a_build_leaves_out_what_is_not_there(tmp_path):
    build = tmp_path / 'build'
    subprocess.run(['cmake', '-S', PROJECT, '-B', build, '-G', 'Ninja', '-DWORKER_CUDA=OFF',
                    '-DWORKER_TESTS=OFF', '-DWORKER_UNIT_PREFIX=/opt/orcd'], check=True,
                   stdout=subprocess.DEVNULL, timeout=300)
    files = installed_by(build, tmp_path / 'root')
    assert 'lib/systemd/system/worker-orcd.service' in files and 'bin/worker-orcd' not in files
    unit = (tmp_path / 'root' / 'usr/local/lib/systemd/system/worker-orcd.service').read_text()
    assert 'ExecStart=/opt/orcd/bin/worker-orcd --config /opt/orcd/etc/worker-orcd/' in unit
    assert str(tmp_path) not in unit, 'a unit names a folder of the build'
