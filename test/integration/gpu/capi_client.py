"""The C API (gpu/include/worker_cuda.h) through ctypes: every function with its types, and nothing else."""
import ctypes as c
import os
from pathlib import Path
from typing import List, Optional, Tuple

SUCCESS, DEVICE_NOT_FOUND, OUT_OF_MEMORY, INVALID_DEVICE, MODEL_LOAD_FAILED, INFERENCE_FAILED = range(6)
VRAM_RESIDENCY_FAILED, KERNEL_LAUNCH_FAILED, INVALID_ARGUMENT, UNKNOWN = 6, 7, 8, 99
TOKEN_BYTES = 256

FUNCTIONS = {
    'cuda_get_device_count': (c.c_int, []),
    'cuda_init': (c.c_void_p, [c.c_int, c.POINTER(c.c_int)]),
    'cuda_destroy': (None, [c.c_void_p]),
    'cuda_load_model': (c.c_void_p, [c.c_void_p, c.c_char_p, c.POINTER(c.c_uint64), c.POINTER(c.c_int)]),
    'cuda_unload_model': (None, [c.c_void_p]),
    'cuda_model_get_vram_usage': (c.c_uint64, [c.c_void_p]),
    'cuda_inference_start': (c.c_void_p, [c.c_void_p, c.c_char_p, c.c_int, c.c_float, c.c_uint64,
                                          c.POINTER(c.c_int)]),
    'cuda_inference_next_token': (c.c_bool, [c.c_void_p, c.c_char_p, c.POINTER(c.c_int), c.POINTER(c.c_int)]),
    'cuda_inference_free': (None, [c.c_void_p]),
    'cuda_check_vram_residency': (c.c_bool, [c.c_void_p, c.POINTER(c.c_int)]),
    'cuda_get_vram_usage': (c.c_uint64, [c.c_void_p]),
    'cuda_get_process_vram_usage': (c.c_uint64, [c.c_void_p]),
    'cuda_error_message': (c.c_char_p, [c.c_int]),
}


def library_path() -> Path:
    project = Path(__file__).resolve().parents[3]
    return Path(os.environ.get('ORCD_BUILD_DIR', project / 'build' / 'release')) / 'libworker_cuda.so'


class Failure(Exception):
    def __init__(self, code: int, message: str):
        super().__init__(f'{code}: {message}')
        self.code, self.message = code, message


class Library:
    """Handles stay plain addresses, so that a test may also pass wrong ones."""

    def __init__(self):
        self.raw = c.CDLL(str(library_path()))
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.raw, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def message(self, code: int) -> str:
        return self.cuda_error_message(code).decode()

    def _checked(self, value, code: c.c_int):
        assert bool(value) == (code.value == SUCCESS), (value, code.value)
        if not value:
            raise Failure(code.value, self.message(code.value))
        return value

    def init(self, device: int = 0) -> int:
        code = c.c_int(-1)
        return self._checked(self.cuda_init(device, c.byref(code)), code)

    def load(self, context: Optional[int], path) -> Tuple[int, int]:
        """(model, bytes of VRAM)."""
        code, used = c.c_int(-1), c.c_uint64(1)
        model = self.cuda_load_model(context, None if path is None else os.fsencode(path), c.byref(used),
                                     c.byref(code))
        assert bool(model) == (used.value > 0)
        return self._checked(model, code), used.value

    def start(self, model: Optional[int], prompt: Optional[str], max_tokens: int = 16,
              temperature: float = 0.0, seed: int = 1) -> int:
        code = c.c_int(-1)
        raw = None if prompt is None else prompt.encode()
        run = self.cuda_inference_start(model, raw, max_tokens, temperature, seed, c.byref(code))
        return self._checked(run, code)

    def next(self, run: Optional[int]) -> Optional[Tuple[str, int]]:
        """(text, index), or nothing at the end."""
        buffer = c.create_string_buffer(b'#' * TOKEN_BYTES, TOKEN_BYTES)
        code, index = c.c_int(-1), c.c_int(-1)
        if self.cuda_inference_next_token(run, buffer, c.byref(index), c.byref(code)):
            assert code.value == SUCCESS and buffer.value
            return buffer.value.decode(), index.value
        assert buffer.value == b''
        if code.value != SUCCESS:
            raise Failure(code.value, self.message(code.value))
        return None

    def pieces(self, model: int, prompt: str, **more) -> List[Tuple[str, int]]:
        run = self.start(model, prompt, **more)
        try:
            out = []
            while (piece := self.next(run)) is not None:
                out.append(piece)
            return out
        finally:
            self.cuda_inference_free(run)

    def resident(self, model: Optional[int]) -> bool:
        code = c.c_int(-1)
        return self._checked(self.cuda_check_vram_residency(model, c.byref(code)), code)


def failure_of(function, *arguments, **more) -> Failure:
    """The failure that a call must end in."""
    try:
        value = function(*arguments, **more)
    except Failure as failure:
        assert failure.message, failure.code
        return failure
    raise AssertionError(f'no failure, but {value!r}')
