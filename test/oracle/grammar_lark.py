#!/usr/bin/env python3
"""Grammars in Lark's form, judged by the lark package: DATA/lark.json has each with texts that it takes and
texts that it does not.

    grammar_lark.py DATA      DATA is test/data/grammar; the package is pinned in requirements.txt
"""
import json
import random
import sys
from itertools import product
from pathlib import Path

from lark import Lark
from lark.exceptions import LarkError

RANDOM = 100
LETTERS = 'ab'
LENGTH = 4
CHANGES = 40

# By hand: a grammar, and texts that it takes.
GRAMMARS = [
    ('choice', 'start: "yes" | "no"', ['yes', 'no']),
    ('query', '''
start: "SELECT " column " from " table (" where " condition)?
column: "col_1 " | "col_2 "
table: "table_1 " | "table_2 "
condition: column "= " number
number: "1 " | "2 "
''', ['SELECT col_1  from table_1 ', 'SELECT col_2  from table_2  where col_1 = 2 ']),
    ('sums', '''
?start: sum
      | NAME "=" sum    -> assign_var
?sum: product
    | sum "+" product   -> add
    | sum "-" product   -> sub
?product: atom
    | product "*" atom  -> mul
    | product "/" atom  -> div
?atom: NUMBER           -> number
     | "-" atom         -> neg
     | NAME             -> var
     | "(" sum ")"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
''', ['1', 'x = 2+3*-y', '((a)-b)*4.5e3 / c', '1 + 2 ']),
    ('json', r'''
?start: value
?value: object | array | string
      | SIGNED_NUMBER -> number
      | "true" | "false" | "null"
array  : "[" [value ("," value)*] "]"
object : "{" [pair ("," pair)*] "}"
pair   : string ":" value
string : ESCAPED_STRING
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS
''', ['{"a": [1, -2.5e3, null], "b":{}}', '[true,\n false]', '"x"', '[]']),
    ('marks', '!start.2: _list\n_list: ITEM ("," ITEM)~1..2 // two or three\nITEM.-1: "x"i /[0-9]/i? # one\n',
     ['x,X', 'x1,x2,X3']),
    ('lines', 'start: line+\nline: WORD "\\n"\n    |   "\\t" WORD "\\n"\n\n    // none\n    | "\\n"\n'
     'WORD: LETTER+\nLETTER: "a".."c" | "A".."C"\n', ['abc\n', '\tAb\n\n', '\n']),
    ('patterns', 'start: /[a-c]+\\/\\d/ X?\nX: /k./is\n', ['ab/1', 'a/0k\n', 'a/1Kk']),
    ('comments', 'start: (C_COMMENT | CPP_COMMENT NEWLINE | WORD)+\n%import common.C_COMMENT\n'
     '%import common.CPP_COMMENT\n%import common.NEWLINE\n%import common.WORD\n',
     ['/* a */', '// x\n', 'a/**/b// c\r\n']),
    ('numbers', 'start: N ("," N)*\nN: HEXDIGIT~2 | FLOAT | SIGNED_INT | DECIMAL "!"\n'
     '%import common.HEXDIGIT\n%import common.FLOAT\n%import common.SIGNED_INT\n%import common.DECIMAL\n',
     ['aF', '1e5,1.,.5,-3,+4', '1.5!', '1.5E-3']),
    ('options', 'start: "a" ["b" ["c"]] ("d"|"e")~2 "f"*\n', ['add', 'abcde', 'abedff']),
]


def changed(text, rng):
    letters = sorted(set(text)) + list(' a1"')
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(3)
    return text[:at] + ('' if kind == 0 else rng.choice(letters)) + text[at + (0 if kind == 1 else 1):]


def takes(parser, text):
    try:
        parser.parse(text)
        return True
    except LarkError:
        return False


def made(grammar):
    return Lark(grammar, parser='earley', lexer='dynamic_complete')


def by_hand(rng):
    out = []
    for name, grammar, texts in GRAMMARS:
        parser = made(grammar)
        for text in texts:
            assert takes(parser, text), (name, text)
        tried = list(texts)
        for _ in range(CHANGES):
            text = changed(changed(rng.choice(texts), rng), rng)
            # What is ignored is not served in front of the whole.
            if text not in tried and text[:1] not in (' ', '\n', '\t'):
                tried.append(text)
        out.append({'grammar': grammar, 'taken': [text for text in tried if takes(parser, text)],
                    'left': [text for text in tried if not takes(parser, text)]})
    return out


class Maker:
    """Grammars of two rules and two terminals over two letters. Terminals have no alternatives and nothing
    optional: of these Lark's regular expressions try only the first that fits."""

    def __init__(self, rng):
        self.rng = rng

    def whole(self):
        return (f'start: {self.choice(["x", "T", "start"], 2)}\nx: {self.choice(["U", "T", "x"], 1)}\n'
                f'T: {self.terminal()} U?\nU: {self.terminal()}\n')

    def terminal(self):
        count = self.rng.choice([1, 2])
        return ' '.join(self.letters() + self.rng.choice(['', '', '+', '~2']) for _ in range(count))

    def letters(self):
        return self.rng.choice(['"a"', '"b"', '"ab"', '"B"i', '"a".."b"', '/a+/', '/[^a]/', '/bb?/'])

    def choice(self, names, depth):
        bar = self.rng.choice([' | ', '\n | ']) if depth == 2 else ' | '
        return bar.join(self.row(names, depth) for _ in range(self.rng.choice([1, 2, 2, 3])))

    def row(self, names, depth):
        return ' '.join(self.item(names, depth) for _ in range(self.rng.choice([1, 1, 2, 3])))

    def item(self, names, depth):
        deeper = ['letters', 'name', 'group', 'maybe'] if depth else []
        kind = self.rng.choice(['letters', 'name', *deeper])
        if kind == 'maybe':
            return f'[{self.choice(names, depth - 1)}]'
        out = {'letters': self.letters, 'name': lambda: self.rng.choice(names),
               'group': lambda: f'({self.choice(names, depth - 1)})'}[kind]()
        return out + self.rng.choice(['', '', '', '', '?', '*', '+', '~2', '~0..2'])


def at_random(rng):
    texts = [''.join(letters) for size in range(LENGTH + 1) for letters in product(LETTERS, repeat=size)]
    out = []
    while len(out) < RANDOM:
        grammar = Maker(rng).whole()
        try:
            parser = made(grammar)
        except (LarkError, AssertionError):
            continue  # a terminal that may be empty
        taken = [text for text in texts if takes(parser, text)]
        if 0 < len(taken) < len(texts):
            out.append({'grammar': grammar, 'taken': taken})
    return out


if __name__ == '__main__':
    rng = random.Random(7)
    data = {'by_hand': by_hand(rng), 'letters': LETTERS, 'length': LENGTH, 'random': at_random(rng)}
    text = json.dumps(data, ensure_ascii=False, indent=0) + '\n'
    (Path(sys.argv[1]) / 'lark.json').write_text(text, 'utf-8')
    print(len(data['by_hand']), 'grammars by hand,', len(data['random']), 'at random')
