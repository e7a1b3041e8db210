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
    package_type = 'library'
    license = 'Apache-2.0'
    description = 'Serves one GGUF model from the VRAM of one GPU over HTTP'
    settings = 'os', 'arch', 'compiler', 'build_type'
    # cuda: the cuda backend, for the CUDA architectures listed with semicolons between, with the toolkit that
    # the host has (it is no Conan package). shared: the C library; there is no static one.
    options = {'cuda': [True, False], 'architectures': ['ANY'], 'shared': [True, False]}
    default_options = {'cuda': False, 'architectures': '90', 'shared': True}
    exports_sources = ('CMakeLists.txt', 'VERSION', 'LICENSE', '*.md', '.llorch.toml', 'cmake/*', 'engine/*',
                       'kernels/*', 'gpu/*', 'net/*', 'app/*', 'etc/*', 'docs/*')
    exports = 'VERSION'

    def set_version(self):
        self.version = (Path(self.recipe_folder) / 'VERSION').read_text().strip()

    def configure(self):
        if not self.options.cuda:
            self.options.rm_safe('architectures')

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
        toolchain.cache_variables['WORKER_CUDA'] = bool(self.options.cuda)
        toolchain.cache_variables['WORKER_LIBRARY'] = bool(self.options.shared)
        # Conan's cache is no place for a service: units name the paths that a deployed package has.
        toolchain.cache_variables['WORKER_UNIT_PREFIX'] = '/usr'
        if self.options.get_safe('architectures'):
            toolchain.cache_variables['WORKER_CUDA_ARCHS'] = str(self.options.architectures)
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        if self.options.shared:
            self.cpp_info.libs = ['worker_cuda']
            self.cpp_info.set_property('cmake_file_name', 'worker_cuda')
            self.cpp_info.set_property('cmake_target_name', 'worker_cuda::worker_cuda')
            self.cpp_info.set_property('pkg_config_name', 'worker_cuda')
        else:
            self.cpp_info.includedirs = []
            self.cpp_info.libdirs = []
        self.buildenv_info.prepend_path('PATH', str(Path(self.package_folder) / 'bin'))
        self.runenv_info.prepend_path('PATH', str(Path(self.package_folder) / 'bin'))
