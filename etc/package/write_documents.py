"""Makes a program's manual page and its completions for bash and zsh out of its own --help, so that they
cannot say anything else. Usage: write_documents.py OUT_DIR PROGRAM...

Takes nothing from the network and writes the same bytes for the same program.
"""
import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple


class Option(NamedTuple):
    names: Tuple[str, ...]  # with dashes, the long one last
    value: str              # placeholder; empty for a flag
    text: str


class Help(NamedTuple):
    usage: str
    purpose: str
    groups: Dict[str, List[Option]]
    closing: str
    verbatim: str


HEADING = re.compile(r'^([A-Z][^:]*):$')
ENTRY = re.compile(r'^  (?:(-\w) \[ (--[\w-]+) \]|(--[\w-]+))(?: (\S+|\[=\S+\]))?(?:  +(.*))?$')
CONTINUED = re.compile(r'^ {10,}(\S.*)$')


def read_help(text: str) -> Help:
    """The table of options, as far as the text has one; texts of another form are shown verbatim."""
    lines = text.rstrip().split('\n')
    usage = re.sub(r'^usage: ', '', lines[0], flags=re.I)
    groups: Dict[str, List[Option]] = {}
    closing: List[str] = []
    group, purpose = '', ''
    for line in lines[1:]:
        heading, entry, more = HEADING.match(line), ENTRY.match(line), CONTINUED.match(line)
        if heading:
            group = heading.group(1)
            groups.setdefault(group, [])
        elif entry and group:
            names = tuple(name for name in entry.group(1, 2, 3) if name)
            groups[group].append(Option(names, entry.group(4) or '', (entry.group(5) or '').strip()))
        elif more and group and groups[group] and not closing:
            last = groups[group][-1]
            groups[group][-1] = last._replace(text=f'{last.text} {more.group(1).strip()}'.strip())
        elif line.strip() and any(groups.values()):
            closing.append(line.strip())
        elif line.strip() and not purpose:
            purpose = line.strip()
    groups = {name: options for name, options in groups.items() if options}
    verbatim = '' if groups else '\n'.join(lines[1:]).strip('\n')
    return Help(usage, purpose, groups, ' '.join(closing), verbatim)


def words_of(option: Option) -> List[str]:
    """The values that are words of a list."""
    value = re.sub(r'^\[=(.*?)(\(=.*\))?\]$', r'\1', option.value)
    return value.split('|') if '|' in value else []


def takes_file(option: Option) -> bool:
    return option.value in ('FILE', 'PATH', 'LOCATION', 'DIR', 'FOLDER')


# --- the manual page -------------------------------------------------------------------------------

def troff(text: str) -> str:
    text = text.replace('\\', '\\e').replace('-', '\\-').replace("'", '\\(aq')
    return '\\&' + text if text.startswith('.') else text


def manual(name: str, version: str, help_: Help) -> str:
    purpose = help_.purpose.split('. ')[0].rstrip('.') or name
    out = [f'.TH {name.upper()} 1 "" "worker-orcd {version}" "User Commands"', '.SH NAME',
           troff(f'{name} - {purpose}'), '.SH SYNOPSIS', f'.B {troff(help_.usage)}']
    if help_.verbatim:
        out += ['.SH DESCRIPTION', '.nf', *(troff(line) for line in help_.verbatim.split('\n')), '.fi']
    if help_.groups:
        out.append('.SH OPTIONS')
    for group, options in help_.groups.items():
        out.append(f'.SS "{troff(group)}"')
        for option in options:
            shown = ', '.join(f'\\fB{troff(n)}\\fR' for n in option.names)
            value = f' \\fI{troff(option.value)}\\fR' if option.value else ''
            out += ['.TP', shown + value, troff(option.text)]
    if help_.closing:
        out += ['.SH ENVIRONMENT, FILES AND EXIT STATUS', troff(help_.closing)]
    return '\n'.join(out) + '\n'


# --- completions -----------------------------------------------------------------------------------

def long_names(options: List[Option]) -> str:
    return ' '.join(sorted(option.names[-1] for option in options))


def bash(name: str, options: List[Option]) -> str:
    function = '_' + name.replace('-', '_')
    cases = [f'    {o.names[-1]}) COMPREPLY=($(compgen -W "{" ".join(words_of(o))}" -- "$word")); return ;;'
             for o in options if words_of(o) and not o.value.startswith('[')]
    files = '|'.join(o.names[-1] for o in options if takes_file(o))
    if files:
        cases.append(f'    {files}) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;')
    others = '|'.join(o.names[-1] for o in options
                      if o.value and not words_of(o) and not takes_file(o) and not o.value.startswith('['))
    if others:
        cases.append(f'    {others}) return ;;')
    body = ['  case $before in', *cases, '  esac'] if cases else []
    return '\n'.join([f'# bash completion of {name}, made from its --help.', f'{function}() {{',
                      '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}',
                      '  COMPREPLY=()', *body,
                      f'  COMPREPLY=($(compgen -W "{long_names(options)}" -- "$word"))', '}',
                      f'complete -F {function} {name}', ''])


def zsh(name: str, options: List[Option]) -> str:
    def spec(option: Option) -> str:
        text = re.sub(r"[\[\]:\\']", ' ', option.text)[:100].strip()
        words = words_of(option)
        action = f'({" ".join(words)})' if words else '_files' if takes_file(option) else ' '
        label = re.sub(r'[^\w -]', ' ', option.value).strip() or 'value'
        if not option.value:
            argument = ''
        elif option.value.startswith('['):
            argument = f'=-::{label}:{action}'
            return f"'{option.names[-1]}{argument[:2]}[{text}]{argument[2:]}'"
        else:
            argument = f':{label}:{action}'
        return f"'{option.names[-1]}[{text}]{argument}'"
    head = [f'#compdef {name}', f'# zsh completion of {name}, made from its --help.', '_arguments \\']
    return '\n'.join([*head,
                      ' \\\n'.join('  ' + spec(option) for option in options), ''])


def main(folder: Path, programs: List[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs:
        name = program.name
        help_ = read_help(subprocess.run([program, '--help'], stdout=subprocess.PIPE, check=True,
                                         timeout=30).stdout.decode())
        version = subprocess.run([program, '--version'], stdout=subprocess.PIPE, check=True,
                                 timeout=30).stdout.decode().split()[1]
        page = gzip.compress(manual(name, version, help_).encode(), 9, mtime=0)
        (folder / f'{name}.1.gz').write_bytes(page)
        options = [option for group in help_.groups.values() for option in group]
        if options:
            (folder / f'{name}.bash').write_text(bash(name, options))
            (folder / f'_{name}').write_text(zsh(name, options))


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit('usage: write_documents.py OUT_DIR PROGRAM...')
    main(Path(sys.argv[1]), [Path(word).resolve() for word in sys.argv[2:]])
