#!/usr/bin/env python3
"""Self-test of check_style.py: for each rule a sample it must refuse and one it must let pass."""
import sys
import tempfile
import unittest
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parent))

import check_style  # noqa: E402
import check_wgmma  # noqa: E402
import cpp_text  # noqa: E402
import rules  # noqa: E402

HEADER = '// What it is for.\n#pragma once\n'


def run(rule, path, text):
    return [message for _, message in rule(PurePosixPath(path), text)]


class SerializedWgmma(unittest.TestCase):
    def test_complaint(self):
        said = ("ptxas info    : (C7518) Potential Performance Loss: wgmma.mma_async instructions are "
                "serialized due to program dependence on compiler-inserted WG.DP in divergent path in the "
                "function '_Z4fooIfE'\n")
        self.assertEqual(check_wgmma.serialized(said + said), [('C7518', '_Z4fooIfE')] * 2)

    def test_other_messages(self):
        said = ("ptxas info    : (C7519) warpgroup.arrive is injected in around line 14796 by compiler to "
                "allow use of registers in GMMA in function '_Z4fooIfE'\n"
                "ptxas info    : Used 96 registers, used 1 barriers\n")
        self.assertEqual(check_wgmma.serialized(said), [])


class IncludeDirection(unittest.TestCase):
    def refuse(self, path, include):
        self.assertTrue(run(rules.include_direction, path, f'#include {include}\n'), f'{path} {include}')

    def allow(self, path, include):
        self.assertEqual(run(rules.include_direction, path, f'#include {include}\n'), [])

    def test_wrong_way(self):
        self.refuse('net/server.cpp', '"gpu/host_backend.hpp"')
        self.refuse('net/server.cpp', '"kernels/host/matmul.hpp"')
        self.refuse('net/server.cpp', '"app/options.hpp"')
        for above in ('net/server.hpp', 'gpu/gpu_thread.hpp', 'app/options.hpp', 'kernels/host/matmul.hpp'):
            self.refuse('engine/schedule/scheduler.cpp', f'"{above}"')
        self.refuse('gpu/host_backend.cpp', '"net/server.hpp"')
        self.refuse('kernels/host/matmul.cpp', '"engine/base/error.hpp"')
        self.refuse('engine/x.cpp', '<boost/asio/io_context.hpp>')
        self.refuse('engine/x.cpp', '<boost/beast.hpp>')
        self.refuse('gpu/step.cu', '<boost/assert.hpp>')
        self.refuse('engine/x.cpp', '"../net/server.hpp"')

    def test_right_way(self):
        self.allow('app/worker.cpp', '"net/server.hpp"')
        self.allow('app/worker.cpp', '"gpu/host_backend.hpp"')
        self.allow('net/server.cpp', '"engine/narration.hpp"')
        self.allow('net/server.cpp', '<boost/beast/http.hpp>')
        self.allow('gpu/host_backend.cpp', '"kernels/host/matmul.hpp"')
        self.allow('engine/x.cpp', '<boost/json.hpp>')
        self.allow('kernels/matmul.hpp', '"engine/gguf/ggml_type.hpp"')
        self.assertEqual(run(rules.include_direction, 'net/x.cpp', '// #include "gpu/x.hpp"\n'), [])


class CoAwait(unittest.TestCase):
    def refuse(self, text):
        self.assertTrue(run(rules.co_await_temporaries, 'net/x.cpp', text), text)

    def allow(self, text):
        self.assertEqual(run(rules.co_await_temporaries, 'net/x.cpp', text), [], text)

    def test_refused(self):
        self.refuse('auto f() { co_await g([s](int) { return s; }); }')
        self.refuse('auto f() { co_await g([s = std::move(t)] { return 1; }); }')
        self.refuse('auto f() { co_await g([=]() mutable { return s; }, 1); }')
        self.refuse('auto f() { auto [e, n] = co_await g(point{1, 2}); }')
        self.refuse('auto f() { if (auto e = co_await g({.a = 1}); e) { h(); } }')
        self.refuse('auto f() { h(point{1, 2}, co_await g()); }')
        self.refuse('auto f() { co_await co_spawn(x, [s]() -> awaitable<int> { co_return 1; }, t); }')

    def test_allowed(self):
        self.allow('auto f() { auto h = [s](int) { return s; }; co_await g(std::move(h)); }')
        self.allow('auto f() { auto [ec, n] = co_await g(std::move(a)); if (ec) { h({1}); } }')
        self.allow('auto f() { co_await g([&] { return 1; }); point p{1, 2}; }')
        self.allow('auto f() { co_await g([](int a) { return point{a}; }); }')
        self.allow('auto f() { while (co_await g(b[i])) { point p{1}; } }')
        self.allow('auto f() { auto run = [s]() -> awaitable<int> { co_await g(); co_return 1; }; }')
        self.allow('auto f() { co_await g("a { brace"); /* { */ }')


class Words(unittest.TestCase):
    def test_detached(self):
        self.assertTrue(run(rules.no_detached, 'net/x.cpp', 'co_spawn(io, f(), asio::detached);\n'))
        self.assertTrue(run(rules.no_detached, 'app/x.cpp', 'std::thread(f).detach();\n'))
        self.assertEqual(run(rules.no_detached, 'net/x.cpp', '// a detached thread would be lost\n'), [])

    def test_markers(self):
        for word in ('TODO', 'FIXME', 'XXX', 'HACK'):
            self.assertTrue(run(rules.no_markers, 'net/x.cpp', f'// {word} later\n'))
        self.assertEqual(run(rules.no_markers, 'tools/x.sh', 'mktemp /tmp/a.XXXXXX\n'), [])

    def test_machine_paths(self):
        for path in ('/' + 'work/main', '/' + 'root/x', '/home/me', 'a = "../shared/data"', 'open(shared/x)'):
            self.assertTrue(run(rules.no_machine_paths, 'tools/x.py', path + '\n'), path)
        for path in ('/usr/share/doc', 'https://example.org/home/x', 'build/work/x', '"/etc/worker-orcd"'):
            self.assertEqual(run(rules.no_machine_paths, 'tools/x.py', path + '\n'), [], path)

    def test_family_names(self):
        for word in ('is_llama', '"qwen2"', 'gpt_oss_layer', 'phi3'):
            self.assertTrue(run(rules.no_family_names, 'gpu/x.cpp', f'if (x == {word}) {{}}\n'), word)
        self.assertEqual(run(rules.no_family_names, 'gpu/x.cpp', '// gpt-oss needs sinks\nint sinks;\n'), [])
        self.assertEqual(run(rules.no_family_names, 'engine/model/llama.cpp', 'int llama;\n'), [])


class Sizes(unittest.TestCase):
    def test_file_length(self):
        self.assertTrue(run(rules.file_length, 'net/x.cpp', 'int a;\n' * 501))
        self.assertEqual(run(rules.file_length, 'net/x.cpp', 'int a;\n' * 500), [])
        self.assertEqual(run(rules.file_length, rules.GENERATED[0], 'int a;\n' * 900), [])
        self.assertEqual(run(rules.file_length, 'docs/x.md', 'text\n' * 900), [])

    def test_function_length(self):
        def body(lines):
            return 'int f(int a) {\n' + '  ++a;\n' * (lines - 2) + '}\n'
        self.assertTrue(run(rules.function_length, 'net/x.cpp', body(71)))
        self.assertEqual(run(rules.function_length, 'net/x.cpp', body(70) * 3), [])
        self.assertEqual(run(rules.function_length, 'gpu/x.cu', body(120)), [])
        self.assertTrue(run(rules.function_length, 'gpu/x.cu', body(121)))
        wrapped = 'namespace a {\nstruct s {\n' + body(80) + '};\n}\n'
        self.assertTrue(run(rules.function_length, 'net/x.hpp', wrapped))
        constructor = 's::s(int a) : a_{a}, b_(2) {\n' + '  ++a;\n' * 80 + '}\n'
        self.assertTrue(run(rules.function_length, 'net/x.cpp', constructor))

    def test_functions_are_found(self):
        text = ('namespace n {\nconstexpr int t[] = {1, 2};\nenum class e { a, b };\n'
                'class c : public d {\n public:\n'
                '  int g() const noexcept { return 1; }\n  c() : a_{1}, b_{2} {}\n'
                ' private:\n  int a_{0};\n};\n'
                'auto h(int x) -> result<int> {\n  auto l = [x](int y) { return y; };\n'
                '  return l(x);\n}\n'
                'BOOST_AUTO_TEST_CASE(works) {\n  h(1);\n}\n}\n')
        self.assertEqual([f.name for f in cpp_text.functions(text)], ['g', 'c', 'h', 'BOOST_AUTO_TEST_CASE'])

    def test_layout(self):
        self.assertTrue(run(rules.layout, 'net/x.cpp', 'x' * 111 + '\n'))
        self.assertEqual(run(rules.layout, 'net/x.cpp', 'x' * 110 + '\n'), [])
        for bad in ('a \n', '\ta\n', 'a\r\n', 'a'):
            self.assertTrue(run(rules.layout, 'net/x.cpp', bad), repr(bad))

    def test_header_form(self):
        self.assertEqual(run(rules.header_form, 'net/x.hpp', HEADER), [])
        self.assertTrue(run(rules.header_form, 'net/x.hpp', '#pragma once\n'))
        self.assertTrue(run(rules.header_form, 'net/x.hpp', '// What.\nint a;\n'))
        self.assertTrue(run(rules.header_form, 'net/x.hpp', '// #pragma once\nint a;\n'))


class Project(unittest.TestCase):
    def test_walk_and_corpora(self):
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder)
            self.assertEqual(check_style.check_project(project), (0, []))
            (project / 'net').mkdir()
            (project / 'net' / 'x.hpp').write_text(HEADER)
            self.assertEqual(check_style.check_project(project), (1, []))
            (project / 'net' / 'y.cpp').write_text('int a; // FIXME\n')
            self.assertEqual(len(check_style.check_project(project)[1]), 1)
            (project / 'net' / 'y.cpp').write_bytes(b'// \xff\n')
            self.assertEqual(len(check_style.check_project(project)[1]), 1)
            (project / 'net' / 'y.cpp').unlink()
            (project / 'test' / 'fuzz').mkdir(parents=True)
            (project / 'test' / 'fuzz' / 'gguf.cpp').write_text('int a;\n')
            self.assertIn('no corpus', check_style.check_project(project)[1][0])
            corpus = project / 'test' / 'fuzz' / 'corpus' / 'gguf'
            corpus.mkdir(parents=True)
            self.assertEqual(len(check_style.check_project(project)[1]), 1)
            (corpus / 'one').write_text('FIXME\n')
            self.assertEqual(check_style.check_project(project), (2, []))

    def test_every_rule_has_a_test(self):
        own = Path(__file__).read_text(encoding='utf-8')
        for rule in rules.RULES:
            self.assertIn(f'rules.{rule.__name__}', own)


if __name__ == '__main__':
    unittest.main()
