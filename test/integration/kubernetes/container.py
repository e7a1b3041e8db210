"""What a container runtime does for the small kubelet of kubelet.py; a program of its own, since name spaces
are entered by whole processes. Its two words are `pause` or `run`, and what is wanted in JSON.

`pause` makes what the containers of a pod share, their network, and where the pod says so their processes,
and keeps it until it is killed. `run` starts one container in it and ends as that does; each has a root of
its own, in which the programs and libraries of this machine are found and nothing else of it. The number of
the process, as this machine sees it, is the first line on the descriptor `tell`.
"""
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC = 0x20000, 0x20000000, 0x40000000, 0x08000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
LIBC = ctypes.CDLL(None, use_errno=True)
# Of an image: what programs load, and devices.
SYSTEM = ('bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'usr', 'etc', 'dev', 'sys')


def call(name: str, *words) -> None:
    if getattr(LIBC, name)(*words) != 0:
        raise OSError(ctypes.get_errno(), f'{name}: {os.strerror(ctypes.get_errno())}')


def mount(source: str, target: Path, kind: str = '', flags: int = 0) -> None:
    call('mount', source.encode(), str(target).encode(), kind.encode(), flags, None)


def enter(pid: int, kind: str) -> None:
    space = os.open(f'/proc/{pid}/ns/{kind}', os.O_RDONLY | os.O_CLOEXEC)
    call('setns', space, 0)
    os.close(space)


def become(child: int) -> None:
    """Ends as that process does."""
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
    os.kill(os.getpid(), os.WTERMSIG(status))
    signal.pause()


def raise_loopback() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack('16sh22x', b'lo', IFF_UP | IFF_RUNNING))


def pause(wanted: dict) -> None:
    call('unshare', CLONE_NEWNET | CLONE_NEWIPC | (CLONE_NEWPID if wanted['processes'] else 0))
    raise_loopback()
    child = os.fork()
    if child == 0:
        call('prctl', PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(wanted['tell'])
        while True:  # the first process of its name space takes over those whose parent has gone
            try:
                os.wait()
            except ChildProcessError:
                time.sleep(0.1)
    os.write(wanted['tell'], f'{child}\n'.encode())
    os.close(wanted['tell'])
    become(child)


def bind(source: str, target: Path, read_only: bool) -> None:
    target.mkdir(parents=True, exist_ok=True)
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount('', target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def make_root(root: Path, wanted: dict) -> None:
    mount('', Path('/'), flags=MS_REC | MS_PRIVATE)
    mount('root', root, 'tmpfs')
    root.chmod(0o755)
    for name in SYSTEM:
        here = Path('/') / name
        if here.is_symlink():
            (root / name).symlink_to(os.readlink(here))
        elif here.is_dir():
            bind(str(here), root / name, name not in ('dev', 'sys'))
    (root / 'tmp').mkdir()
    (root / 'tmp').chmod(0o1777)
    (root / 'proc').mkdir()
    for place, source, read_only in wanted['mounts']:
        bind(source, root / place[1:], read_only)
    for folder in wanted['programs']:
        bind(folder, root / folder[1:], True)


def start(root: Path, wanted: dict) -> None:
    """The process of the container, in all of its name spaces but for the root."""
    mount('proc', root / 'proc', 'proc')
    if wanted['read_only']:
        mount('', root, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
    os.chroot(root)
    os.chdir(wanted['directory'])
    os.setgroups(wanted['groups'])
    os.setgid(wanted['group'])
    os.setuid(wanted['user'])
    call('prctl', PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call('prctl', PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(wanted['tell'])
    os.execvpe(wanted['words'][0], wanted['words'], wanted['environment'])


def run(wanted: dict) -> None:
    root = Path(wanted['root'])
    os.umask(0o022)
    for kind in ('net', 'ipc'):
        enter(wanted['pause'], kind)
    if wanted['processes']:
        enter(wanted['pause'], 'pid')
    call('unshare', CLONE_NEWNS | (0 if wanted['processes'] else CLONE_NEWPID))
    make_root(root, wanted)
    child = os.fork()
    if child == 0:
        try:
            start(root, wanted)
        except OSError as problem:
            print(f'container: {problem}', file=sys.stderr, flush=True)
            os._exit(127)
    os.write(wanted['tell'], f'{child}\n'.encode())
    os.close(wanted['tell'])
    become(child)


if __name__ == '__main__':
    {'pause': pause, 'run': run}[sys.argv[1]](json.loads(sys.argv[2]))
