"""The systemd units: valid, and with little left for an attacker. What they say is as the worker needs it."""
import re
import shutil
import subprocess

import pytest

from worker_process import BUILD, PROJECT

UNITS = [*sorted((BUILD / 'etc').glob('worker-orcd*.service')),
         *sorted((BUILD / 'etc').glob('worker-orcd*.socket'))]
WORKERS = [unit for unit in UNITS if unit.suffix == '.service' and 'holder' not in unit.name]
TOOL = shutil.which('systemd-analyze')
EXPOSURE_MAX = 1.4
needs_tool = pytest.mark.skipif(TOOL is None, reason='systemd-analyze is not installed')


def name_of(unit) -> str:
    return unit.name


@pytest.fixture
def installed(tmp_path):
    """A unit's file as installed, with an instance's name where it is a template, and beside the others; the
    programs, which need not be installed here, are replaced."""
    def write(unit):
        for each in UNITS:
            text = re.sub(r'^ExecStart=\S+', 'ExecStart=/bin/true', each.read_text(), flags=re.M)
            (tmp_path / each.name).write_text(text)
        return tmp_path / unit.name.replace('@.', '@main.')
    return write


def run(*words):
    done = subprocess.run([TOOL, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return done.returncode, done.stdout.decode()


def test_every_kind_of_unit_is_there():
    names = {unit.name for unit in UNITS}
    assert {'worker-orcd.service', 'worker-orcd@.service', 'worker-orcd.socket', 'worker-orcd@.socket',
            'worker-orcd-engine-0@.service', 'worker-orcd-engine-1@.service',
            'worker-orcd-holder@.service'} <= names


@needs_tool
@pytest.mark.parametrize('unit', UNITS, ids=name_of)
def test_unit_is_valid(unit, installed):
    code, text = run('verify', '--man=no', '--recursive-errors=no', str(installed(unit)))
    about_it = [line for line in text.splitlines() if 'worker-orcd' in line]
    assert not about_it and code == 0, text


@needs_tool
@pytest.mark.parametrize('unit', [unit for unit in UNITS if unit.suffix == '.service'], ids=name_of)
def test_unit_is_confined(unit, installed):
    path = installed(unit)
    if path.name != unit.name:
        path.write_text((path.parent / unit.name).read_text())  # the tool wants the instance's own file
    code, text = run('security', '--offline=yes', '--no-pager', str(path))
    found = re.search(r'Overall exposure level for \S+: ([\d.]+)', text)
    assert found and float(found.group(1)) <= EXPOSURE_MAX, text[-600:]


@needs_tool
def test_a_unit_with_a_wrong_path_is_found(installed):
    """That the check above can fail."""
    path = installed(BUILD / 'etc' / 'worker-orcd.service')
    path.write_text(path.read_text().replace('ExecStart=/bin/true', 'ExecStart=/nowhere/worker-orcd'))
    code, text = run('verify', '--man=no', '--recursive-errors=no', str(path))
    assert code != 0 and '/nowhere/worker-orcd' in text, text


def settings(unit):
    return dict(re.findall(r'^(\w+)=(.*)$', unit.read_text(), re.M))


def seconds(text: str) -> float:
    units = {'ms': 0.001, 's': 1, 'min': 60, 'h': 3600, '': 1}
    return sum(float(n) * units[u] for n, u in re.findall(r'([\d.]+)\s*(ms|s|min|h|)', text) if n)


@pytest.mark.parametrize('path', WORKERS, ids=name_of)
def test_unit_never_gives_up(path):
    unit = settings(path)
    assert unit['StartLimitIntervalSec'] == '0', 'a host may be without its GPU for minutes'
    assert seconds(unit['RestartSec']) >= 1, 'and is not busy with starting meanwhile'
    assert unit['RestartPreventExitStatus'].split() == ['2'], 'wrong usage stays wrong'


@pytest.mark.parametrize('path', WORKERS, ids=name_of)
def test_unit_has_room_for_every_option(path):
    unit = settings(path)
    threads_max = 1024  # --threads
    assert int(unit['TasksMax']) > threads_max + 50
    assert int(unit['LimitNOFILE']) > 65_536, 'the most that --max-connections takes'
    assert unit['MemoryMax'].endswith('%')
    drain_default = 25
    ends = 2 + 3  # for streams to end, and for the teardown
    assert seconds(unit['TimeoutStopSec']) > drain_default + ends


@pytest.mark.parametrize('path', WORKERS, ids=name_of)
def test_unit_leaves_the_driver_its_devices(path):
    text = path.read_text()
    allowed = set(re.findall(r'^DeviceAllow=(\S+) rw$', text, re.M))
    assert {'char-nvidia', 'char-nvidia-frontend', 'char-nvidiactl', 'char-nvidia-uvm'} <= allowed
    assert 'PrivateDevices=' not in re.sub(r'^#.*$', '', text, flags=re.M), 'it would hide them all'


def test_engines_share_a_folder_that_outlives_each():
    for number in '01':
        unit = settings(BUILD / 'etc' / f'worker-orcd-engine-{number}@.service')
        assert unit['RuntimeDirectory'] == 'worker-orcd-%i' and unit['RuntimeDirectoryPreserve'] == 'yes'
        assert '--failover-dir /run/worker-orcd-%i --engine-id %j' in unit['ExecStart']


def constant(header: str, name: str) -> int:
    found = re.search(rf"{name} = ([\d']+);", (PROJECT / header).read_text())
    return int(found.group(1).replace("'", ''))


def test_the_holder_and_its_engines_share_a_folder():
    unit = settings(BUILD / 'etc' / 'worker-orcd-holder@.service')
    assert unit['RuntimeDirectory'] == 'worker-orcd-%i' and unit['RuntimeDirectoryPreserve'] == 'yes'
    options = subprocess.run([BUILD / 'worker-orcd-holder', '--help'], stdout=subprocess.PIPE, check=True,
                             timeout=60).stdout.decode()
    for word in re.findall(r' (--[\w-]+)', unit['ExecStart']):
        assert f'  {word} ' in options, f'{word} is no option of the holder'
    held = constant('net/failover/holder_frames.hpp', 'held_sockets_max')
    weights = constant('app/holder/stored_weights.hpp', 'stored_weights_max')
    assert int(unit['FileDescriptorStoreMax']) == held + 2 + weights


@pytest.mark.parametrize('path', WORKERS, ids=name_of)
def test_every_option_of_a_unit_is_one(path):
    options = subprocess.run([BUILD / 'worker-orcd', '--help'], stdout=subprocess.PIPE, check=True,
                             timeout=60).stdout.decode()
    for word in re.findall(r' (--[\w-]+)', settings(path)['ExecStart']):
        assert f'  {word} ' in options, f'{word} is no option'


def test_an_instance_has_a_configuration_of_its_own():
    assert settings(BUILD / 'etc' / 'worker-orcd@.service')['ExecStart'].endswith('/worker-orcd/%i.conf')
