"""The parts of the night: what each one runs, in how many minutes it must have ended, and what it needs.

A command is bash in the root of the project. BUILD is the folder of the binaries: build/PRESET of what
`builds` names, or what --build-dir gives. COMMIT is what is tested, NIGHT the folder of the logs.
"""
from dataclasses import dataclass
from typing import Tuple

ROOT, GPU = 'root', 'a GPU'
DEMO = 'models/SmolLM2-135M-Instruct.Q4_1.gguf'
TESTS = 'test/integration'
ALLOCATIONS = f'{TESTS}/test_allocation_failures.py'
# What has a machine with a GPU to itself: it judges how long something takes, or counts the GPU's memory.
GPU_ALONE = tuple(f'{TESTS}/{name}.py' for name in (
    'test_bad_bodies', 'test_completions', 'test_concurrency', 'test_embeddings', 'test_io_thread',
    'test_prefix_cache', 'test_signals', 'failover/test_leftovers'))
SHIPPED = ('release', 'worker-orcd', 'worker-orcd-holder', 'write_tiny_model')


@dataclass(frozen=True)
class Part:
    name: str
    about: str
    minutes: float
    command: str
    builds: Tuple[str, ...] = ()  # a preset and targets of it; without targets all
    packages: Tuple[str, ...] = ()  # purposes of tools/packages.sh
    needs: Tuple[str, ...] = ()
    proof: str = ''  # a line that the log of a part that passed has
    more_logs: Tuple[str, ...] = ()  # where else is written what is counted


def _packaged(name: str, about: str, minutes: float, command: str, proof: str, *packages: str) -> Part:
    return Part(name, about, minutes, f'deb=$(tools/package.sh)\n{command}', ('release', 'write_tiny_model'),
                ('test', *packages), (ROOT,), proof)


def _ctest(name: str, about: str, minutes: float, preset: str, test: str, before: str = '',
           *packages: str) -> Part:
    return Part(name, about, minutes,
                f'{before}ctest --test-dir "$BUILD" --output-on-failure --no-tests=error -R "^{test}\\$"',
                (preset,), ('test', *packages),
                more_logs=(f'build/{preset}/Testing/Temporary/LastTest.log',))


def _whole(preset: str, about: str, *left_out: str) -> Part:
    """Nothing is left out but the attack, a part of its own, and what repeats in CI what is run here."""
    named = ' '.join(f'{preset}:{test}' for test in ('attack', *left_out))
    return Part(preset, about, 60, f'ORCD_LEFT_OUT="{named}" tools/test.sh {preset}',
                more_logs=(f'build/{preset}/Testing/Temporary/LastTest.log',))


def _of_release(name: str, about: str, minutes: float) -> Part:
    """A test of the shipped build that needs what tools/test.sh fetches."""
    return Part(name, about, minutes, f"ORCD_LEFT_OUT='release:(?!{name}$).*' tools/test.sh release",
                more_logs=('build/release/Testing/Temporary/LastTest.log',))


def _attack(name: str, about: str, minutes: float, preset: str, words: str, sanitizer: str = '') -> Part:
    return Part(name, about, minutes,
                f'ORCD_SANITIZER={sanitizer} "$python" -B test/attack/attack.py '
                f'--binary "$BUILD/worker-orcd" --tools "$BUILD" {words}',
                (preset, *SHIPPED[1:]), ('test',))


def _pytest(name: str, about: str, minutes: float, words: str, builds: Tuple[str, ...] = SHIPPED) -> Part:
    return Part(name, about, minutes, words, builds, ('test',))


def _tidy(name: str, *folders: str) -> Part:
    listed = ' '.join(f"'{folder}/*.cpp'" for folder in folders)
    return Part(name, f'clang-tidy on all of {", ".join(folders)}', 60,
                f'git ls-files {listed} | xargs tools/clang_tidy.py "$BUILD"', ('dev', 'help'), ('test',))


def _oracle(name: str, about: str, minutes: float, package: str, command: str) -> Part:
    return Part(name, about, minutes,
                f'PYTHONPATH=$PWD/$(tools/python_packages.sh {package})\nexport PYTHONPATH\ncd test/oracle\n'
                f'/usr/bin/python3 -B {command}',
                ('release', 'worker-orcd', 'write_tiny_model', 'trillim-quantize'))


def _on_gpu(name: str, about: str, command: str, *builds: str) -> Part:
    return Part(name, about, 10, command, builds, needs=(GPU,))


def _gpu_tests(name: str, about: str, words: str) -> Part:
    return _on_gpu(name, f'with ORCD_BACKEND=cuda: {about}',
                   f'export ORCD_BACKEND=cuda ORCD_GPU=1\npytest {words}', 'release')


def _gpu_beside(name: str, about: str, files: str) -> Part:
    """In processes beside one another, since a test mostly waits for its worker to start. What is named is
    run in spite of --ignore; --deselect leaves it out."""
    left_out = ' '.join(f'--deselect {file}' for file in (ALLOCATIONS, *GPU_ALONE))
    return _gpu_tests(name, about, f'-n 8 --dist loadfile {files} {left_out}')


def _figures(model: str) -> Part:
    return _on_gpu(f'gpu-figures-{model}', f'the figures of {model}, into build/night',
                   f'bench/run_gpu.sh "$BUILD/bench_synth" "$BUILD/bench_cuda_decode" "$NIGHT/{model}.json" '
                   f'--worker "$BUILD/worker-orcd" --commit "$COMMIT" --models {model}',
                   'bench', 'bench_synth', 'bench_cuda_decode', 'worker-orcd')


PARTS: Tuple[Part, ...] = (
    _packaged('package', 'the Debian package: built, installed, upgraded and removed in a chroot', 60,
              'tools/package_check.sh "$deb" "$BUILD"', '^== the package was installed, upgraded, removed'),
    _packaged('units', 'its units under a real systemd', 30,
              'tools/systemd_check.sh "$deb" "$BUILD"', '^== all units behaved under a real systemd'),
    _packaged('image', 'the container image, and an answer from it', 30,
              'tools/image_check.sh "$BUILD" "$deb"', '^== the image was built', 'image'),
    Part('package-twice', 'two builds of the package give the same bytes', 60, 'tools/package_twice.sh',
         packages=('test',)),
    Part('conan', 'the C library as a Conan package', 60,
         'tools/conan_check.sh\necho "== the package was made and used"', packages=('test',)),
    Part('demo', 'the demo', 30, 'tools/demo.sh', proof='^worker exited with 0'),
    Part('failover-demo', 'the demo of failover', 30, 'tools/failover-demo.sh', proof='the same story: yes'),
    _of_release('frameworks', 'frameworks over the published clients', 60),
    _of_release('floods', 'answers that are made to be slow for the page', 45),
    *(_pytest(f'sweep-{half}', f'frameworks, each in a folder of its own: every second from {half} on', 60,
              f'files=$(tools/sweep_clients.sh {half})\nORCD_NO_SKIP=1 pytest $files') for half in (1, 2)),
    _ctest('fronts', 'proxies and a router in front of workers that are killed and drained', 30, 'release',
           'fronts', 'ORCD_ROUTER=$PWD/$(tools/python_packages.sh vllm-router)\nexport ORCD_ROUTER\n',
           'fronts'),
    _attack('attack-strict', 'the attack, judged by the goals', 30, 'release', '--minutes 10 --strict'),
    _attack('attack-asan', 'the attack under the address sanitizer', 45, 'asan', '--minutes 10', 'address'),
    _attack('attack-tsan', 'the attack under the thread sanitizer', 45, 'tsan', '--minutes 10', 'thread'),
    _whole('asan', 'unit and integration tests under the address sanitizer of g++', 'integration_coroutines'),
    _whole('fuzz', 'the same under the address and undefined-behaviour sanitizers of clang'),
    _whole('tsan', 'the same under the thread sanitizer', 'integration_threads'),
    *(_pytest(f'allocations-{burst}', f'every allocation fails, {burst} in a row', 60,
              'ORCD_ALLOCATION_PLACES=all pytest '
              f'"{ALLOCATIONS}::test_any_allocation_may_fail[{burst}]"',
              (*SHIPPED, 'failing_allocation')) for burst in (1, 40)),
    Part('journal-kills', '1,000 kills of what answers over the journal', 30,
         '"$BUILD/journal_kills" --kills 1000', ('release', 'journal_kills'), ('test',)),
    _pytest('stream-kills', 'every kind of answer through 50 kills, byte for byte', 60,
            f'ORCD_STREAM_KILLS=50 pytest {TESTS}/failover/test_streams.py'),
    _pytest('stream-kills-demo', '50 kills of the engine that streams the demo model', 60,
            f'tools/fetch_demo_model.sh\n"$python" -B bench/failover --build "$BUILD" --model {DEMO} '
            '--kills 50 --runs 1 --scenarios 1x512 --json "$NIGHT/failover.json"'),
    _pytest('polled-kills', '50 takeovers under probes and connects each millisecond', 30,
            f'ORCD_POLLED_KILLS=50 pytest -s {TESTS}/failover/test_pollers.py'),
    _pytest('changed-engines', 'engines that would answer otherwise: each option, and 50 updates', 60,
            f'ORCD_CHANGES=all ORCD_UPDATES=50 pytest -s {TESTS}/failover/test_changed_engine.py'),
    _pytest('restarts', '50 restarts of the engine that serves, under every kind of answer', 30,
            f'ORCD_RESTARTS=50 pytest {TESTS}/failover/test_stop.py'),
    _pytest('takeovers', '200 takeovers in a row leave nothing behind', 60,
            f'ORCD_TAKEOVERS=200 pytest -s {TESTS}/failover/test_leftovers.py'),
    Part('fuzz-kept', 'every libFuzzer target from its kept corpus', 60, 'tools/fuzz_kept.sh "$BUILD" 45',
         ('fuzz', 'fuzz_targets'), ('test',)),
    _oracle('oracle-goldens', 'the stored logits beside those that transformers computes now', 30, 'oracle',
            'compare_goldens.py ../data'),
    _oracle('oracle-bitnet', 'BitNet models beside transformers', 30, 'oracle',
            'compare_transformers_bitnet.py "$BUILD"'),
    _oracle('oracle-pytritium', 'BitNet models beside pytritium', 60, 'pytritium',
            'compare_bitnet.py "$BUILD"'),
    _oracle('oracle-llama', 'the stored logits beside those of llama.cpp', 60, 'llama-cpp',
            'compare_llama_cpp.py ../data/families'),
    _tidy('tidy-engine', 'engine'),
    _tidy('tidy-net', 'net'),
    _tidy('tidy-others', 'app', 'gpu', 'kernels'),
    _on_gpu('gpu-kernels', 'gpu_tests: kernels against host references',
            '"$BUILD/gpu_tests" --log_level=test_suite --report_level=short', 'release', 'gpu_tests'),
    _gpu_tests('gpu-cuda', 'the CUDA backend, its faults and the C API', f'{TESTS}/gpu'),
    _gpu_tests('gpu-alone', 'what judges times or counts memory, one after the other', ' '.join(GPU_ALONE)),
    _gpu_beside('gpu-worker-1', 'the worker, a to d', f'{TESTS}/test_[a-d]*.py'),
    _gpu_beside('gpu-worker-2', 'the worker, e to o', f'{TESTS}/test_[e-o]*.py'),
    _gpu_beside('gpu-worker-3', 'the worker, p to z', f'{TESTS}/test_[p-z]*.py'),
    _gpu_beside('gpu-api', 'dialects, kinds of models, pipes and traces',
                ' '.join(f'{TESTS}/{folder}' for folder in ('api', 'models', 'pipe', 'traces'))),
    _gpu_beside('gpu-failover-1', 'failover, a to k', f'{TESTS}/failover/test_[a-k]*.py'),
    _gpu_beside('gpu-failover-2', 'failover, l to z', f'{TESTS}/failover/test_[l-z]*.py'),
    *map(_figures, ('qwen2.5-0.5b', 'phi-3-mini', 'gpt-oss-20b')),
)
