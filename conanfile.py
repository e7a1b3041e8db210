"""Conan 2 recipe: a thin layer over the project's own CMake.

With etc/conan/debian12-gcc12 every library comes from Debian 12 and no remote is asked; with another
profile the same requirements come from a remote that has them.
"""
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout


class WorkerOrcd(ConanFile):
    name = 'worker-orcd'
    package_type = 'application'
    license = 'Apache-2.0'
    description = 'Serves one GGUF model from the VRAM of one GPU over HTTP'
    settings = 'os', 'arch', 'compiler', 'build_type'
    options = {'with_cuda': [True, False], 'cuda_archs': ['ANY']}
    default_options = {'with_cuda': False, 'cuda_archs': '90'}
    exports_sources = ('CMakeLists.txt', 'VERSION', 'LICENSE', '*.md', '.llorch.toml', 'cmake/*', 'engine/*',
                       'kernels/*', 'gpu/*', 'net/*', 'app/*', 'etc/*', 'docs/*')
    exports = 'VERSION'

    def set_version(self):
        self.version = (Path(self.recipe_folder) / 'VERSION').read_text().strip()

    def config_options(self):
        if not self.options.with_cuda:
            self.options.rm_safe('cuda_archs')

    def requirements(self):
        self.requires('boost/1.81.0')
        self.requires('openssl/[>=3.0 <4]')
        self.requires('utf8proc/[>=2.8 <3]')
        self.requires('libsystemd/[>=252]')
        self.requires('yaml-cpp/[>=0.7 <1]')

    def validate(self):
        if self.settings.os != 'Linux':
            raise ConanInvalidConfiguration('worker-orcd runs on Linux only')
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # the project's own CMakePresets.json stays as it is
        toolchain.cache_variables['WORKER_TESTS'] = False
        toolchain.cache_variables['WORKER_CUDA'] = bool(self.options.with_cuda)
        if self.options.get_safe('cuda_archs'):
            toolchain.cache_variables['WORKER_CUDA_ARCHS'] = str(self.options.cuda_archs)
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.includedirs = []
        self.cpp_info.libdirs = []
        self.buildenv_info.prepend_path('PATH', str(Path(self.package_folder) / 'bin'))
        self.runenv_info.prepend_path('PATH', str(Path(self.package_folder) / 'bin'))
