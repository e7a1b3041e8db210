"""Uses the package as its consumers do: links the C library, loads a small model and fetches tokens; runs the
programs. Needs no GPU and no network."""
import os
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class WorkerOrcdTest(ConanFile):
    settings = 'os', 'arch', 'compiler', 'build_type'
    generators = 'CMakeToolchain', 'CMakeDeps', 'VirtualRunEnv'

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        package = Path(self.dependencies['worker-orcd'].package_folder)
        for unit in (package / 'lib' / 'systemd' / 'system').glob('*.service'):
            assert str(package) not in unit.read_text(), f'{unit.name} names a folder of the cache'
        if can_run(self):
            model = Path(self.recipe_folder).parent / 'test' / 'data' / 'golden' / 'llama-tied.gguf'
            self.run('worker-orcd --version', env='conanrun')
            self.run(f'worker-orcd-inspect plan "{model}"', env='conanrun')
            self.run(f'"{os.path.join(self.cpp.build.bindir, "fetch_tokens")}" "{model}"', env='conanrun')
