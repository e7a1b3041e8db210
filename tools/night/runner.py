"""Runs parts one after the other, each within its time, and writes down what came of it."""
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional

import record
from counts import counts
from parts import DEMO, GPU, ROOT, Part

PROJECT = Path(__file__).resolve().parents[2]
RECORD = PROJECT / 'docs' / 'measured' / 'night.json'
LOGS = PROJECT / 'build' / 'night'
PREPARE_MINUTES = 120
END_SECONDS = 5  # between the signal that may be dealt with and the one that may not
# What every part's command begins with. Debian's interpreter is the one that has Debian's pytest.
PRELUDE = f"""set -euo pipefail
python=/usr/bin/python3
"$python" -c 'import pytest' 2>/dev/null || python=python3
pytest() {{ "$python" -B -m pytest -q -ra "$@"; }}
[ ! -f {DEMO} ] || export ORCD_DEMO_MODEL=$PWD/{DEMO}
"""


@dataclass
class Night:
    commit: str
    build: Optional[Path] = None  # given binaries: nothing is installed or built
    record: Path = RECORD
    logs: Path = LOGS
    project: Path = PROJECT


def gpu_name() -> str:
    """Of the first GPU, without its UUID; empty where there is none."""
    if not shutil.which('nvidia-smi'):
        return ''
    said = subprocess.run(['nvidia-smi', '-L'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False)
    names = re.findall(r'^GPU \d+: (.*?) \(UUID', said.stdout.decode(), re.M) if said.returncode == 0 else []
    return names[0] if names else ''


def machine() -> Dict[str, object]:
    text = Path('/proc/cpuinfo').read_text(encoding='utf-8')
    model = re.search(r'^model name\s*: (.*)$', text, re.M)
    return {'cpu': model.group(1) if model else 'unknown', 'cores': len(os.sched_getaffinity(0)),
            'gpu': gpu_name() or 'none'}


def missing(part: Part) -> str:
    """What the part needs and this machine has not; empty where all is there."""
    absent = {ROOT: os.geteuid() != 0, GPU: GPU in part.needs and not gpu_name()}
    return ', '.join(need for need in part.needs if absent[need])


def end_group(process: subprocess.Popen, how: signal.Signals) -> None:
    """What a part has started ends with it."""
    try:
        os.killpg(process.pid, how)
    except ProcessLookupError:
        pass


def run_in_time(command: str, log, minutes: float, environment: Dict[str, str],
                project: Path) -> Optional[int]:
    """Its exit code; None where it took longer. Nothing of it runs on."""
    with subprocess.Popen(['bash', '-c', PRELUDE + command], stdin=subprocess.DEVNULL, stdout=log,
                          stderr=subprocess.STDOUT, cwd=project, env=environment,
                          start_new_session=True) as process:
        try:
            return process.wait(minutes * 60)
        except subprocess.TimeoutExpired:
            end_group(process, signal.SIGTERM)
            time.sleep(END_SECONDS)
            return None
        finally:
            end_group(process, signal.SIGKILL)


def preparation(part: Part) -> str:
    commands = [f'tools/packages.sh {purpose}' for purpose in part.packages]
    if part.builds:
        commands.append(f'tools/build.sh {" ".join(part.builds)}')
    return '\n'.join(commands)


def judge(part: Part, code: Optional[int], found: Dict[str, int], text: str) -> str:
    """Nothing that was not counted has passed."""
    if code is None:
        return f'failed: over {part.minutes:g} minutes'
    if code != 0:
        return f'failed: exit code {code}'
    if found.get('failed', 0) > 0:
        return 'failed: what was counted'
    if part.proof and not re.search(part.proof, text, re.M):
        return f'failed: its log does not say "{part.proof}"'
    if not any(number for name, number in found.items() if name not in ('failed', 'skipped', 'only_alone')):
        return 'failed: nothing was counted'
    return record.PASSED


def run(part: Part, night: Night) -> record.Line:
    """One part, and its line."""
    night.logs.mkdir(parents=True, exist_ok=True)
    preset = part.builds[0] if part.builds else ''
    build = night.build or night.project / 'build' / preset
    environment = {**os.environ, 'BUILD': str(build), 'ORCD_BUILD_DIR': str(build), 'COMMIT': night.commit,
                   'NIGHT': str(night.logs)}
    path = night.logs / f'{part.name}.log'
    began = time.monotonic()
    with path.open('wb') as log:
        code: Optional[int] = 0
        if night.build is None:
            code = run_in_time(preparation(part), log, PREPARE_MINUTES, environment, night.project)
        prepared = code == 0
        if prepared:
            began = time.monotonic()
            code = run_in_time(part.command, log, part.minutes, environment, night.project)
    seconds = round(time.monotonic() - began)
    logs = [path, *(night.project / name for name in part.more_logs)]
    text = '\n'.join(log.read_text(encoding='utf-8', errors='replace') for log in logs if log.exists())
    found = counts(text) if prepared else {}
    result = judge(part, code, found, text) if prepared else 'failed: it was not built'
    return {'part': part.name, 'commit': night.commit, 'date': time.strftime('%Y-%m-%d', time.gmtime()),
            'machine': machine(), 'seconds': seconds, 'counts': found, 'result': result}


def run_all(chosen: List[Part], night: Night, recorded: bool = True) -> List[str]:
    """Names of the parts that failed. One that fails or is left out keeps no other one back."""
    failed, left_out = [], []
    for part in chosen:
        absent = missing(part)
        if absent:
            left_out.append(f'{part.name}: needs {absent}')
            print(f'== {part.name}: left out, needs {absent}', flush=True)
            continue
        print(f'== {part.name}: {part.about}', flush=True)
        line = run(part, night)
        if recorded:
            record.write(night.record, [line])
        told = ', '.join(f'{number} {name}' for name, number in line['counts'].items())
        print(f'== {part.name}: {line["result"]} in {line["seconds"]} s ({told}); '
              f'{night.logs / part.name}.log', flush=True)
        if line['result'] != record.PASSED:
            failed.append(part.name)
    for name in left_out:
        print(f'LEFT OUT {name}')
    for name in failed:
        print(f'FAILED {name}')
    return failed
