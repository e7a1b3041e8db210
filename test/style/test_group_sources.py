"""Tests of cmake/group_sources.py: what may be compiled in one unit."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'cmake'))
import group_sources  # noqa: E402


def source(path: str, *lines: str) -> group_sources.Source:
    return group_sources.read_source(path, 'namespace orcd {\nnamespace {\n\n' + '\n'.join(lines) + '\n')


class Names(unittest.TestCase):
    def test_names_of_a_source_are_found(self):
        for line, name in (('bool has(const list& all, text_view word) {', 'has'),
                           ('std::vector<int> sums_of(', 'sums_of'),
                           ('template <class T> bool same(const T& a);', 'same'),
                           ('struct walker final : visitor {', 'walker'),
                           ('enum class kind { a, b };', 'kind'),
                           ('constexpr std::size_t most = 3;', 'most'),
                           ('const char* words[] = {"a"};', 'words'),
                           ('#define CHECK(x) x', 'CHECK'), ('using text = std::string;', 'text'),
                           ('json::object* made{};', 'made'),
                           ('constexpr std::array<text, static_cast<std::size_t>(last)> rows = {', 'rows')):
            self.assertEqual(set(source('a.cpp', line).own), {name}, line)

    def test_what_is_no_name_of_its_own_is_none(self):
        for line in ('  int local = 1;', 'void walker::step() {', '}', 'return false;', 'using std::move;',
                     '// bool has(int x) {', 'BOOST_TEST(true);'):
            self.assertEqual(set(source('a.cpp', line).own) - {'BOOST_TEST'}, set(), line)
        self.assertEqual(group_sources.read_source('a.cpp', 'bool shared(int x) {\n}\n').own, {})


class Groups(unittest.TestCase):
    def assert_apart(self, one, other, apart=True):
        self.assertEqual(group_sources.clash(one, other), apart)
        self.assertEqual(group_sources.clash(other, one), apart)
        self.assertEqual(len(group_sources.group([one, other])), 2 if apart else 1)

    def test_the_same_name_twice(self):
        has = source('a.cpp', 'bool has(view a) {', '}')
        self.assert_apart(has, source('b.cpp', 'bool has(text a) {', '}'))
        self.assert_apart(has, source('b.cpp', 'bool is(text a) {', '}'), False)

    def test_a_name_that_another_source_uses_of_a_header(self):
        self.assert_apart(source('a.cpp', 'int size(view a) {', '}'),
                          source('b.cpp', 'int f(view a) {', '  return size(a);', '}'))

    def test_an_alias_may_be_said_twice_if_it_means_the_same(self):
        clock = 'using clock = std::chrono::steady_clock;'
        self.assert_apart(source('a.cpp', clock), source('b.cpp', clock), False)
        self.assert_apart(source('a.cpp', clock), source('b.cpp', 'using clock = test_clock;'))

    def test_a_new_source_moves_few_others(self):
        sources = [source(f'{i}.cpp', f'int f{i}() {{', '}') for i in range(64)]
        before, after = ({member.path: [one.path for one in members]
                          for members in group_sources.group(some) for member in members}
                         for some in (sources, sources + [source('new.cpp', 'int n() {', '}')]))
        moved = [path for path in before if set(before[path]) != set(after[path]) - {'new.cpp'}]
        self.assertLess(len(moved), 32)

    def test_every_source_has_one_place_and_no_group_is_too_large(self):
        sources = [source(f'{i}.cpp', f'int f{i % 5}() {{', '}') for i in range(40)]
        groups = group_sources.group(sources)
        self.assertEqual(sorted(one.path for members in groups for one in members),
                         sorted(one.path for one in sources))
        self.assertLessEqual(max(map(len, groups)), group_sources.MOST)
        for members in groups:
            self.assertFalse(any(group_sources.clash(a, b) for a in members for b in members if a is not b))


if __name__ == '__main__':
    unittest.main()
