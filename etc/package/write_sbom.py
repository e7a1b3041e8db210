"""Says what the programs are made of: a list of parts (SPDX 2.3, JSON), and licences of what is inside.

Usage: write_sbom.py --ninja BUILD_DIR --version-file FILE --out-dir DIR [--inside FILE]... TARGET...

Writes worker-orcd.spdx.json, copyright (a table of licences) and third-party-notices.gz.

The parts are read from the link commands of the build and from what the linked programs need at run time;
which packages they come from, and their versions, from Debian's package database. Only the names of the
licences are written down here. `--inside` is a file that is compiled into a program. The same build gives the
same bytes; SOURCE_DATE_EPOCH is the time.
"""
import argparse
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Set

# By the name of Debian's source package.
LICENCES = {'boost1.81': 'BSL-1.0', 'openssl': 'Apache-2.0', 'utf8proc': 'MIT AND Unicode-DFS-2015',
            'systemd': 'LGPL-2.1-or-later', 'gcc-12': 'GPL-3.0-or-later WITH GCC-exception-3.1',
            'glibc': 'LGPL-2.1-or-later', 'node-marked': 'MIT', 'yaml-cpp': 'MIT', 'icu': 'Unicode-DFS-2016',
            'node-katex': 'MIT AND OFL-1.1', 'libjpeg-turbo': 'IJG AND BSD-3-Clause AND Zlib',
            'libpng1.6': 'libpng-2.0', 'libwebp': 'BSD-3-Clause', 'highlight.js': 'BSD-3-Clause',
            'mpg123': 'LGPL-2.1-only'}
CUDA = 'LicenseRef-NVIDIA-CUDA-EULA'


class Part(NamedTuple):
    name: str
    version: str
    source: str
    inside: bool  # copied into a program; else loaded at run time


def output(*words: str) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()


def link_words(build: Path, target: str) -> List[str]:
    return output('ninja', '-C', str(build), '-t', 'commands', target).strip().split('\n')[-1].split()


def needed(program: Path) -> Iterable[Path]:
    """The shared libraries that the program itself asks for; not what those ask for in turn."""
    names = set(re.findall(r'\(NEEDED\).*\[(.+)\]', output('readelf', '-d', str(program))))
    loaded = output('ldd', str(program))
    for name, path in re.findall(r'^\s*(\S+) (?:=> )?(/\S+|\S+)? ?\(0x', loaded, re.M):
        if Path(name).name in names:
            yield Path(path or name)


def packages_of(paths: Iterable[Path]) -> Dict[Path, str]:
    """Debian's package of each file; since all is below /usr, the database knows some by an old path."""
    found: Dict[Path, str] = {}
    for path in sorted(set(paths)):
        spellings = {str(path), str(path.resolve())}
        spellings |= {'/usr' + s for s in spellings if s.startswith('/lib')}
        spellings |= {s[4:] for s in spellings if s.startswith('/usr/lib')}
        run = subprocess.run(['dpkg', '-S', *sorted(spellings)], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, timeout=60)
        owner = re.match(r'([^:,\s]+)', run.stdout.decode())
        if owner:
            found[path] = owner.group(1)
    return found


def parts_of(paths: Iterable[Path], inside: bool) -> Set[Part]:
    paths = list(paths)
    owners = packages_of(paths)
    parts = set()
    for path in paths:
        if path in owners:
            form = '${Package} ${Version} ${source:Package}\\n'
            known = output('dpkg-query', '-W', '-f', form, owners[path])
            name, version, source = known.split('\n')[0].split()
            parts.add(Part(name, version, source, inside))
        elif 'cuda' in str(path):
            version = re.search(r'cuda-([\d.]+)', str(path.resolve()))
            parts.add(Part('cuda-runtime', version.group(1) if version else 'unknown', 'cuda', inside))
        else:
            sys.exit(f'write_sbom.py: {path} is linked and of no package')
    return parts


def licence_of(part: Part) -> str:
    return CUDA if part.source == 'cuda' else LICENCES.get(part.source, 'NOASSERTION')


def identifier(name: str) -> str:
    return 'SPDXRef-' + re.sub(r'[^A-Za-z0-9.-]', '-', name)


def document(version: str, parts: List[Part]) -> dict:
    own = {'name': 'worker-orcd', 'SPDXID': 'SPDXRef-worker-orcd', 'versionInfo': version,
           'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False, 'licenseConcluded': 'Apache-2.0',
           'licenseDeclared': 'Apache-2.0', 'copyrightText': 'NOASSERTION'}
    packages = [own] + [
        {'name': part.name, 'SPDXID': identifier(part.name), 'versionInfo': part.version,
         'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False, 'licenseConcluded': licence_of(part),
         'licenseDeclared': licence_of(part), 'copyrightText': 'NOASSERTION',
         'externalRefs': [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl',
                           'referenceLocator': f'pkg:deb/debian/{part.name}@{part.version}'}]}
        for part in parts]
    relations = [{'spdxElementId': 'SPDXRef-DOCUMENT', 'relationshipType': 'DESCRIBES',
                  'relatedSpdxElement': 'SPDXRef-worker-orcd'}]
    for part in parts:
        how = 'STATIC_LINK' if part.inside else 'DYNAMIC_LINK'
        relations.append({'spdxElementId': 'SPDXRef-worker-orcd', 'relationshipType': how,
                          'relatedSpdxElement': identifier(part.name)})
    digest = hashlib.sha256(json.dumps([packages, relations]).encode()).hexdigest()
    now = time.gmtime(int(os.environ.get('SOURCE_DATE_EPOCH', '0')))
    created = time.strftime('%Y-%m-%dT%H:%M:%SZ', now)
    out = {'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT',
           'name': f'worker-orcd-{version}',
           'documentNamespace': f'https://spdx.org/spdxdocs/worker-orcd-{version}-{digest}',
           'creationInfo': {'created': created, 'creators': ['Tool: worker-orcd-write_sbom.py']},
           'packages': packages, 'relationships': relations}
    if any(licence_of(part) == CUDA for part in parts):
        out['hasExtractedLicensingInfos'] = [{'licenseId': CUDA, 'name': 'NVIDIA CUDA Toolkit EULA',
                                              'extractedText': 'https://docs.nvidia.com/cuda/eula/'}]
    return out


def summary(parts: List[Part]) -> str:
    """Under which licences the project and the parts inside its programs are."""
    rows = [f'  {part.name} {part.version}: {licence_of(part)}' for part in parts if part.inside]
    return '\n'.join(['Copyright: the authors of worker-orcd.',
                      'Licence: Apache-2.0, in the file LICENSE beside this one; on Debian also',
                      '/usr/share/common-licenses/Apache-2.0.', '',
                      'Its programs contain these parts, whose notices are in third-party-notices.gz:', '',
                      *rows, ''])


def notices(parts: List[Part]) -> str:
    """What the packages of all that is inside a program say about rights."""
    out = []
    inside = [part for part in parts if part.inside]
    for source in sorted({part.source for part in inside}):
        names = sorted(part.name for part in inside if part.source == source)
        texts = [Path(f'/usr/share/doc/{name}/copyright') for name in names]
        found = [path for path in texts if path.exists()]
        out += ['=' * 78, f'{source} ({", ".join(names)})', '=' * 78, '']
        out.append(found[0].read_text() if found else 'The notices are with its own distribution.\n')
    return '\n'.join(out)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ('ninja', 'version-file', 'out-dir'):
        parser.add_argument(f'--{name}', type=Path, required=True)
    parser.add_argument('--inside', type=Path, action='append', default=[])
    parser.add_argument('targets', nargs='+')
    asked = parser.parse_args()
    static: Set[Path] = set(asked.inside)
    shared: Set[Path] = set()
    for target in asked.targets:
        words = [Path(word) for word in link_words(asked.ninja, target)]
        static |= {word for word in words if word.is_absolute() and word.suffix == '.a'
                   and asked.ninja not in word.parents}
        shared |= set(needed(asked.ninja / target))
    parts = sorted(parts_of(static, True) | parts_of(shared, False))
    asked.out_dir.mkdir(parents=True, exist_ok=True)
    version = asked.version_file.read_text().strip()
    sbom = json.dumps(document(version, parts), indent=1) + '\n'
    (asked.out_dir / 'worker-orcd.spdx.json').write_text(sbom)
    (asked.out_dir / 'copyright').write_text(summary(parts))
    (asked.out_dir / 'third-party-notices.gz').write_bytes(gzip.compress(notices(parts).encode(), 9, mtime=0))


if __name__ == '__main__':
    main()
