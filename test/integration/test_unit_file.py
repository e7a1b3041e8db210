"""The systemd unit: valid, and with little left for an attacker."""
import re
import shutil
import subprocess

import pytest

from worker_process import BUILD

UNIT = BUILD / 'etc' / 'worker-orcd.service'
TOOL = shutil.which('systemd-analyze')
EXPOSURE_MAX = 1.5
pytestmark = pytest.mark.skipif(TOOL is None, reason='systemd-analyze is not installed')


@pytest.fixture
def unit(tmp_path):
    """The unit as installed, but for the program, which need not be installed here."""
    text = UNIT.read_text()
    copy = tmp_path / 'worker-orcd.service'
    copy.write_text(re.sub(r'^ExecStart=\S+', 'ExecStart=/bin/true', text, flags=re.M))
    return copy


def test_unit_is_valid(unit):
    run = subprocess.run([TOOL, 'verify', '--man=no', '--recursive-errors=no', str(unit)],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    about_it = [line for line in run.stdout.decode().splitlines() if 'worker-orcd' in line]
    assert not about_it and run.returncode == 0, run.stdout.decode()


def test_unit_is_confined(unit):
    run = subprocess.run([TOOL, 'security', '--offline=yes', '--no-pager', str(unit)],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    found = re.search(r'Overall exposure level for worker-orcd.service: ([\d.]+)', run.stdout.decode())
    assert found and float(found.group(1)) <= EXPOSURE_MAX, run.stdout.decode()[-600:]


def settings():
    return dict(re.findall(r'^(\w+)=(.*)$', UNIT.read_text(), re.M))


def seconds(text: str) -> float:
    units = {'ms': 0.001, 's': 1, 'min': 60, 'h': 3600, '': 1}
    return sum(float(n) * units[u] for n, u in re.findall(r'([\d.]+)\s*(ms|s|min|h|)', text) if n)


def test_unit_never_gives_up():
    unit = settings()
    assert unit['StartLimitIntervalSec'] == '0', 'a host may be without its GPU for minutes'
    assert seconds(unit['RestartSec']) >= 1, 'and is not busy with starting meanwhile'


def test_unit_has_room_for_every_option():
    unit = settings()
    threads_max = 1024  # --threads
    assert int(unit['TasksMax']) > threads_max + 50
    assert int(unit['LimitNOFILE']) > 65_536, 'the most that --max-connections takes'
    assert unit['MemoryMax'].endswith('%')
