"""Which skips are expected, on which build and machine. With ORCD_NO_SKIP=1 every other one is a failure:
that a tool, a package or a model is missing would else go unnoticed. Each is named at the end in any case."""
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from worker_process import BACKEND, CUDA, SANITIZED

HAS_GPU = Path('/proc/driver/nvidia/gpus').is_dir()
ROOT = os.geteuid() == 0


def has_ipv6() -> bool:
    table = Path('/proc/net/if_inet6')
    return table.exists() and '1' in table.read_text()


class Expected(NamedTuple):
    reason: str  # a regular expression: what the skip says
    here: bool
    why: str


EXPECTED = (
    Expected(r'^(a|the SDK waits for no) sanitizer', SANITIZED,
             'a sanitizer has an allocator, threads, descriptors and a pace of its own'),
    Expected(r'^about (files|documents|CMake): once is enough|shipped build|^the release build is what ',
             SANITIZED, 'nothing of it is compiled otherwise; the shipped build runs it'),
    Expected(r'^(a figure of the release build|times of an instrumented build say nothing)', SANITIZED,
             'what is judged is a time'),
    Expected(r'^(two minutes of arithmetic|minutes of one request|a token of the demo model)', SANITIZED,
             'too long here, and the same code is reached by tests that run'),
    Expected(r'^ORCD_GPU=1 says that there is a GPU', not HAS_GPU, 'CI has no GPU'),
    Expected(r'^this build has no CUDA backend', not CUDA, 'tests of a build with it'),
    Expected(r'^this build has the CUDA backend; ', CUDA, 'a test of the build without it'),
    Expected(r'^bench_synth is not built', True, 'the preset bench has it, and a GPU is where it is used'),
    Expected(r'^(a|the) .*(on a GPU|on cuda)$|GPU.s (driver|memory) |^a GPU has a copy|^of the host alone'
             r'|^f32 is not what the CUDA kernels|^the seed is one of the host', BACKEND != 'host',
             'about the host backend, or too fast to be seen on a GPU'),
    Expected(r'^this machine has GPUs', HAS_GPU, 'about a machine without one'),
    Expected(r'^(only root can (become another user|make name spaces)|becomes another user|gives files away'
             r'|a limit on the threads of this user |no file system can be mounted here)', not ROOT,
             'root alone can; CI is root'),
    Expected(r'^runs as root: ', ROOT, 'root can read what others cannot'),
    Expected(r'^no IPv6 here', not has_ipv6(), 'the kernel of a container may have none'),
    Expected(r'^vllm-router passes every path on', True, 'a property of that router'),
)


def is_expected(reason: str) -> bool:
    return any(one.here and re.search(one.reason, reason) for one in EXPECTED)


def judge(report) -> None:
    """A failure instead of a skip that nothing expects."""
    if os.environ.get('ORCD_NO_SKIP') != '1' or not report.skipped or hasattr(report, 'wasxfail'):
        return
    reason = reason_of(report)
    if not is_expected(reason):
        report.outcome = 'failed'
        report.longrepr = f'{report.nodeid}: skipped, which is not expected (expected_skips.py): {reason}'


def reason_of(report) -> str:
    _, _, text = report.longrepr
    return re.sub('^Skipped: ', '', text)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    judge((yield).get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report():
    judge((yield).get_result())


def pytest_terminal_summary(terminalreporter) -> None:
    """Pytest's own summary folds them, and has no names."""
    for report in terminalreporter.stats.get('skipped', []):
        terminalreporter.write_line(f'SKIPPED {report.nodeid}: {reason_of(report)}')
