"""Uses the package as its consumers do: a program that is built with CMake and one that is built with
pkg-config link the C library, load a small model and fetch tokens; the package's programs are run. Needs no
GPU and no network."""
import os
import shlex
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class WorkerOrcdTest(ConanFile):
    settings = 'os', 'arch', 'compiler', 'build_type'
    generators = 'CMakeToolchain', 'CMakeDeps', 'PkgConfigDeps', 'VirtualRunEnv'

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    @property
    def _package(self):
        return self.dependencies['worker-orcd']

    @property
    def _consumers(self):
        """The programs that use the library, where the package has it."""
        folder = Path(self.build_folder) / self.cpp.build.bindir
        return [folder / 'with_cmake', folder / 'with_pkg_config'] if self._package.options.library else []

    def build(self):
        if not self._consumers:
            return
        cmake = CMake(self)
        cmake.configure()
        cmake.build()
        source, program = Path(self.source_folder) / 'fetch_tokens.c', self._consumers[1]
        described = shlex.quote(self.generators_folder)
        self.run(f'cc -std=c11 -Wall -Werror {shlex.quote(str(source))} -o {shlex.quote(str(program))} '
                 f'$(PKG_CONFIG_PATH={described} pkg-config --cflags --libs worker_cuda)')

    def test(self):
        package = Path(self._package.package_folder)
        for unit in (package / 'lib' / 'systemd' / 'system').glob('*.service'):
            assert str(package) not in unit.read_text(), f'{unit.name} names a folder of the cache'
        assert 'Apache License' in (package / 'licenses' / 'LICENSE').read_text()
        seen = [dep.ref.name for require, dep in self.dependencies.items() if not require.build]
        assert seen == ['worker-orcd'], f'consumers see {seen}'
        if can_run(self):
            model = Path(self.recipe_folder).parent / 'test' / 'data' / 'golden' / 'llama-tied.gguf'
            self.run('worker-orcd --version', env='conanrun')
            self.run(f'worker-orcd-inspect plan "{model}"', env='conanrun')
            for program in self._consumers:
                self.run(f'"{program}" "{model}"', env='conanrun')
