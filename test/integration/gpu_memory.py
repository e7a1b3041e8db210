"""How much of the GPU's memory is in use, seen from outside the worker; and, as a program, a neighbour that
takes most of it:

    python3 gpu_memory.py LEAVE     takes all but LEAVE bytes, prints what it took, ends with its input
"""
import contextlib
import ctypes as c
import functools
import subprocess
import sys
from typing import Iterator

from worker_process import wait_until

MIB = 1 << 20
# What the driver itself may keep or give back between two measurements.
SLACK = 8 * MIB


class _Memory(c.Structure):
    _fields_ = [('total', c.c_ulonglong), ('free', c.c_ulonglong), ('used', c.c_ulonglong)]


@functools.lru_cache(maxsize=None)
def _management_library():
    """NVML and the first GPU. Kept open: the driver then stays awake between two workers."""
    library, device = c.CDLL('libnvidia-ml.so.1'), c.c_void_p()
    assert library.nvmlInit_v2() == 0
    assert library.nvmlDeviceGetHandleByIndex_v2(0, c.byref(device)) == 0
    return library, device


def used() -> int:
    """Bytes in use on the first GPU, by all processes."""
    try:
        library, device = _management_library()
    except OSError:
        query = ['nvidia-smi', '-i', '0', '--query-gpu=memory.used', '--format=csv,noheader,nounits']
        return int(subprocess.run(query, stdout=subprocess.PIPE, check=True, timeout=60).stdout) * MIB
    memory = _Memory()
    assert library.nvmlDeviceGetMemoryInfo(device, c.byref(memory)) == 0
    return memory.used


def name() -> str:
    """GPU-..., of the first GPU."""
    query = ['nvidia-smi', '-i', '0', '--query-gpu=uuid', '--format=csv,noheader']
    return subprocess.run(query, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode().strip()


def wait_for(baseline: int, slack: int = SLACK) -> None:
    """Until no more is in use than there was."""
    wait_until(lambda: used() <= baseline + slack, 10, f'{used()} bytes of VRAM in use, before {baseline}',
               step=0.05)


@contextlib.contextmanager
def back_to_baseline() -> Iterator[int]:
    before = used()
    yield before
    wait_for(before)


@contextlib.contextmanager
def all_taken_but(leave: int) -> Iterator[None]:
    """Another process has all of the memory but so many bytes."""
    neighbour = subprocess.Popen([sys.executable, '-B', __file__, str(leave)], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
    try:
        told = neighbour.stdout.readline()
        assert told.startswith(b'took '), told
        yield
    finally:
        neighbour.kill()
        neighbour.communicate(timeout=30)


def main(leave: int) -> int:
    cuda = c.CDLL('libcuda.so.1')
    context, taken, free, total = c.c_void_p(), c.c_uint64(), c.c_size_t(), c.c_size_t()

    def must(status: int) -> None:
        if status != 0:
            raise SystemExit(f'CUDA error {status}')
    must(cuda.cuInit(0))
    must(cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0))
    must(cuda.cuCtxSetCurrent(context))
    must(cuda.cuMemGetInfo_v2(c.byref(free), c.byref(total)))
    size = max(free.value - leave, MIB)
    must(cuda.cuMemAlloc_v2(c.byref(taken), c.c_size_t(size)))
    print('took', size, 'of', total.value, flush=True)
    sys.stdin.read()
    return 0


if __name__ == '__main__':
    sys.exit(main(int(sys.argv[1])))
