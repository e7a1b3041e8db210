"""Conan 2 recipe: a thin layer over the project's own CMake.

With etc/conan/debian12-gcc12 every library comes from Debian 12 and no remote is asked; with another
profile the same requirements come from a remote that has them.
"""
import subprocess
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir, save


class WorkerOrcd(ConanFile):
    name = 'worker-orcd'
    license = 'Apache-2.0'
    author = 'worker-orcd maintainers <maintainers@worker-orcd.invalid>'
    url = 'https://worker-orcd.invalid/source'
    homepage = 'https://worker-orcd.invalid/'
    description = 'Serves one GGUF model from the VRAM of one GPU over HTTP'
    topics = 'llm', 'inference', 'gguf', 'cuda', 'http-server'
    settings = 'os', 'arch', 'compiler', 'build_type'
    # library: the C library beside the programs; it is a shared one always. cuda: the cuda backend, for the
    # CUDA architectures listed with semicolons between, with the toolkit that the host has (it is no Conan
    # package).
    options = {'library': [True, False], 'cuda': [True, False], 'architectures': ['ANY']}
    default_options = {'library': True, 'cuda': False, 'architectures': '90'}
    exports_sources = ('CMakeLists.txt', 'VERSION', 'LICENSE', '*.md', '.llorch.toml', 'cmake/*', 'engine/*',
                       'kernels/*', 'gpu/*', 'net/*', 'app/*', 'etc/*', 'docs/*')

    def set_version(self):
        folder = Path(self.recipe_folder)
        self.version = subprocess.run(['sh', folder / 'cmake' / 'version.sh', folder], check=True,
                                      stdout=subprocess.PIPE).stdout.decode().strip()

    def export_sources(self):
        # There is no repository where these are built.
        save(self, str(Path(self.export_sources_folder) / '.version'), f'{self.version}\n')

    def configure(self):
        self.package_type = 'shared-library' if self.options.library else 'application'
        if not self.options.cuda:
            self.options.rm_safe('architectures')

    def requirements(self):
        # Inside the library and the programs: who uses them need neither have these nor agree on a version.
        for reference in ('boost/1.81.0', 'openssl/[>=3.0 <4]', 'utf8proc/[>=2.8 <3]', 'libsystemd/[>=252]',
                          'yaml-cpp/[>=0.7 <1]', 'libjpeg-turbo/[>=2.1 <4]', 'libpng/[>=1.6 <2]',
                          'libwebp/[>=1.2 <2]', 'mpg123/[>=1.31 <2]'):
            self.requires(reference, visible=False)

    def validate(self):
        if self.settings.os != 'Linux':
            raise ConanInvalidConfiguration('worker-orcd runs on Linux only')
        check_min_cppstd(self, 20)
        shared = [dep.ref.name for dep in self.dependencies.host.values() if dep.options.get_safe('shared')]
        if shared:
            raise ConanInvalidConfiguration('what worker-orcd hides from its consumers must be static '
                                            f'libraries, which these are not: {", ".join(shared)}')

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # the project's own CMakePresets.json stays as it is
        toolchain.cache_variables['WORKER_TESTS'] = False
        toolchain.cache_variables['WORKER_CUDA'] = bool(self.options.cuda)
        toolchain.cache_variables['WORKER_LIBRARY'] = bool(self.options.library)
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
        package = Path(self.package_folder)
        licences = str(package / 'licenses')
        copy(self, 'LICENSE', self.source_folder, licences)
        # Of what is inside, where the system's packages say it.
        for name in ('copyright', 'third-party-notices.gz'):
            copy(self, name, str(package / 'share' / 'doc' / self.name), licences)
        # Conan writes these for each consumer.
        for name in ('cmake', 'pkgconfig'):
            rmdir(self, str(package / 'lib' / name))

    def package_info(self):
        programs = self.cpp_info.components['programs']
        programs.includedirs, programs.libdirs = [], []
        if self.options.library:
            self.cpp_info.set_property('cmake_file_name', 'worker_cuda')
            library = self.cpp_info.components['worker_cuda']
            library.libs = ['worker_cuda']
            library.bindirs = []
            library.set_property('cmake_target_name', 'worker_cuda::worker_cuda')
            library.set_property('pkg_config_name', 'worker_cuda')
