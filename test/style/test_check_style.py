#!/usr/bin/env python3
"""Self-test of check_style.py: for each rule a sample it must refuse and one it must let pass."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parent))

import check_style  # noqa: E402
import classes  # noqa: E402
import cpp_text  # noqa: E402
import dead  # noqa: E402
import includes  # noqa: E402
import rules  # noqa: E402

LAUNCHER = str(Path(__file__).resolve().parents[2] / 'cmake' / 'device_compiler.sh')
HEADER = '// What it is for.\n#pragma once\n'


def run(rule, path, text):
    return [message for _, message in rule(PurePosixPath(path), text)]


class DeviceCompiler(unittest.TestCase):
    """cmake/device_compiler.sh, with a shell in the compiler's place that says what it is told."""
    USED = "ptxas info    : Used 96 registers, used 1 barriers\n"
    INJECTED = ("ptxas info    : (C7519) warpgroup.arrive is injected in around line 14796 by compiler to "
                "allow use of registers in GMMA in function '_Z4fooIfE'\n")
    SERIALIZED = ("ptxas info    : (C7518) Potential Performance Loss: wgmma.mma_async instructions are "
                  "serialized due to program dependence on compiler-inserted WG.DP in divergent path in the "
                  "function '_Z4fooIfE'\n")

    def compile(self, said, *options, status=0):
        done = subprocess.run(
            [LAUNCHER, 'sh', '-c', 'printf %s "$1" >&2; exit $2', 'sh', said, str(status), *options],
            capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def test_serialized_products_are_an_error(self):
        status, said = self.compile(self.USED + self.SERIALIZED, '-Xptxas=-v')
        self.assertEqual(status, 1)
        self.assertIn('_Z4fooIfE', said)

    def test_other_messages_of_ptxas_are_left_out(self):
        self.assertEqual(self.compile(self.USED + self.INJECTED, '-Xptxas=-v'), (0, ''))

    def test_errors_and_warnings_stay(self):
        warning, error = 'a.cu(1): warning\n', 'a.cu(1): error\n'
        self.assertEqual(self.compile(self.USED + warning, '-Xptxas=-v'), (0, warning))
        self.assertEqual(self.compile(error, '-Xptxas=-v', status=2), (2, error))

    def test_without_messages_nothing_is_known(self):
        self.assertEqual(self.compile('', '-Xptxas=-v')[0], 1)

    def test_who_does_not_ask_is_let_through(self):
        self.assertEqual(self.compile(self.USED), (0, self.USED))


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
        self.allow('net/server.cpp', '"engine/base/narration.hpp"')
        self.allow('net/server.cpp', '<boost/beast/http.hpp>')
        self.allow('gpu/host_backend.cpp', '"kernels/host/matmul.hpp"')
        self.allow('engine/x.cpp', '<boost/json.hpp>')
        self.allow('kernels/matmul.hpp', '"engine/gguf/ggml_type.hpp"')
        self.assertEqual(run(rules.include_direction, 'net/x.cpp', '// #include "gpu/x.hpp"\n'), [])


def lines(**texts):
    """Sources from names that spell '/' as '__': a header each, which includes the files that are listed."""
    return {name.replace('__', '/') + '.hpp': HEADER + ''.join(f'#include "{other}"\n' for other in others)
            for name, others in texts.items()}


class Circles(unittest.TestCase):
    def found(self, sources):
        return list(includes.circles(sources))

    def test_two_units(self):
        ring = {'net/http/a.hpp': '#include "net/http/b.hpp"\n',
                'net/http/a.cpp': '#include "net/http/a.hpp"\n',
                'net/http/b.hpp': HEADER,
                'net/http/b.cpp': '#include "net/http/b.hpp"\n'}
        self.assertEqual(self.found(ring), [])
        # No header includes one that includes it, and yet neither unit can be understood without the other.
        ring['net/http/b.cpp'] += '  # include "net/http/a.hpp"\n'
        self.assertEqual(len(self.found(ring)), 1)
        self.assertIn('net/http/a, net/http/b', self.found(ring)[0])

    def test_one_unit_has_several_files(self):
        self.assertEqual(self.found({'kernels/sample/x.cuh': '#include "kernels/sample/x.hpp"\n',
                                     'kernels/sample/x.cu': '#include "kernels/sample/x.cuh"\n'}), [])

    def test_longer_rings_and_what_hangs_on_them(self):
        sources = lines(net__a=['net/b.hpp'], net__b=['net/c.hpp'], net__c=['net/a.hpp', 'net/d.hpp'],
                        net__d=['net/e.hpp'], net__e=['net/d.hpp', 'net/f.hpp'], net__f=[],
                        net__g=['net/a.hpp'])
        self.assertEqual([line.split(': ')[2].split(';')[0] for line in self.found(sources)],
                         ['net/d, net/e', 'net/a, net/b, net/c'])

    def test_comments_include_nothing(self):
        self.assertEqual(self.found({'net/a.hpp': '#include "net/b.hpp"\n',
                                     'net/b.hpp': '// #include "net/a.hpp"\n'}), [])


class Rooms(unittest.TestCase):
    def refuse(self, path, target):
        self.assertEqual(len(list(includes.upward({path: f'#include "{target}"\n'}))), 1, f'{path} {target}')

    def allow(self, path, target):
        self.assertEqual(list(includes.upward({path: f'#include "{target}"\n'})), [], f'{path} {target}')

    def test_upward(self):
        self.refuse('net/json/text.hpp', 'net/http/sse.hpp')
        self.refuse('net/jobs/service.hpp', 'net/openai/models.hpp')
        self.refuse('gpu/gpu_thread.cpp', 'gpu/host/host_backend.hpp')
        self.refuse('gpu/host/host_backend.cpp', 'gpu/cuda/cuda_backend.hpp')
        self.refuse('kernels/device/divider.hpp', 'kernels/product/packed_matrix.hpp')
        self.refuse('engine/schedule/job.hpp', 'engine/served/served_model.hpp')
        self.refuse('engine/accelerator.hpp', 'engine/schedule/job.hpp')
        self.refuse('engine/model/family/bert.cpp', 'engine/text/tokenizer.hpp')
        self.refuse('app/options.hpp', 'app/inspect/inspect.hpp')

    def test_beside(self):
        self.refuse('net/openai/completions.cpp', 'net/execute/execute.hpp')
        self.refuse('net/completion/serve_completion.cpp', 'net/openai/models.hpp')
        self.refuse('gpu/plan/slice_reader.cpp', 'gpu/host/host_tensors.hpp')
        self.refuse('kernels/layer/encoder.cu', 'kernels/host/gelu.hpp')
        self.refuse('kernels/host/rows.cpp', 'kernels/product/packed_matrix.hpp')
        self.refuse('engine/schedule/scheduler.cpp', 'engine/text/tokenizer.hpp')

    def test_downward(self):
        self.allow('net/server/server.cpp', 'net/limits.hpp')
        self.allow('net/server/server.cpp', 'net/json/text.hpp')
        self.allow('gpu/capi/cuda_api.cpp', 'gpu/layer_tap.hpp')
        self.allow('kernels/decode_program/program_outputs.cuh', 'kernels/sample/sample_math.cuh')
        self.allow('kernels/host/isa/half.hpp', 'kernels/product/quant_blocks.hpp')
        self.allow('kernels/host/isa/half.hpp', 'kernels/host/isa/lanes.hpp')
        self.allow('engine/schedule/scheduler.hpp', 'engine/accelerator.hpp')
        self.allow('engine/model/family/bert.cpp', 'engine/model/family.hpp')
        self.allow('engine/conversation/chat_format.cpp', 'engine/jinja/chat_template.hpp')
        # Between the top folders another rule decides.
        self.allow('gpu/host/host_backend.cpp', 'kernels/host/matmul.hpp')

    def test_a_new_room_must_be_given_its_place(self):
        for path in ('net/new/x.hpp', 'engine/new/deep/x.hpp'):
            found = list(includes.upward({path: HEADER}))
            self.assertEqual(len(found), 1)
            self.assertIn('has no place', found[0])

    def test_rooms_are_listed_from_the_lowest_up(self):
        listed = set()
        for room, below in includes.ROOMS.items():
            self.assertLessEqual(set(below), listed, room)
            listed.add(room)

    def test_every_room_is_there(self):
        project = Path(__file__).resolve().parents[2]
        for room in includes.ROOMS:
            self.assertTrue((project / room).is_dir() or (project / (room + '.hpp')).is_file(), room)


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

    def test_dead_citations(self):
        for words in ('Source: issue 5.', 'issue 5 item 3', 'Issues 4 and 5', 'issue 5 "To show"',
                      '(issue 4)', 'Source: issue 4, the floor', 'design 3', 'see design\n// 5, too',
                      'design 2 (max-queue)', 'design 3 and 4.', 'features.md (d)', 'design.md',
                      'measured.md', 'reliability.md', 'reliability 2.4', 'seed 002', 'style 5.5',
                      'performance notes 4.3', 'performance\n/// notes'):
            self.assertTrue(run(rules.no_dead_citations, 'net/x.hpp', f'// Why. {words}\n'), words)
        self.assertTrue(run(rules.no_dead_citations, 'tools/x.py', '"""Source: issue 5 item 3."""\n'))
        self.assertTrue(run(rules.no_dead_citations, 'net/x.hpp', '/* design 3 */\n'))
        for words in ('Source: M0-W-1310, WORK-3040.', 'each warp may issue 4 loads ahead',
                      'a design of 3 stages', 'the seed of a job', 'seed 42', 'docs/performance.md',
                      'docs/design.md', 'RFC 9112, 2.1', 'a matter of style', 'reliability of 99 %'):
            self.assertEqual(run(rules.no_dead_citations, 'net/x.hpp', f'// {words}\n'), [], words)
        self.assertEqual(run(rules.no_dead_citations, 'net/x.cpp', 'auto t = "issue 5.";\n'), [])
        self.assertEqual(run(rules.no_dead_citations, 'docs/x.md', 'design 3\n'), [])

    def test_citations_are_found_in_their_line(self):
        text = 'int a;\n// Why.\n// Source: issue\n// 5.\n'
        found = list(rules.no_dead_citations(PurePosixPath('net/x.hpp'), text))
        self.assertEqual([line for line, _ in found], [3])
        self.assertIn('"issue 5"', found[0][1])

    def test_requirements_resolve(self):
        explained = rules.explained_requirements('| id |\n|---|\n| M0-W-1310, WORK-3050 | WORK-3051 |\n'
                                                 '| M0-W-1600..1602 | c |\nM0-W-1700 in a sentence\n')
        self.assertEqual(explained, {'M0-W-1310', 'WORK-3050', 'M0-W-1600', 'M0-W-1601', 'M0-W-1602'})
        for words, line in (('M0-W-9999', 1), ('M0-W-1310, 9999', 1), ('WORK-3040..3999', 1),
                            ('so\n// WORK-9', 0), ('so\n// WORK-3999', 2),
                            ('M0-W-1310..1312, WORK-3040, 3120', 0)):
            found = list(rules.requirements_resolve(PurePosixPath('net/x.hpp'), f'// {words}\n'))
            self.assertEqual([at for at, _ in found], [line] if line else [], words)
        self.assertEqual(run(rules.requirements_resolve, 'net/x.cpp', 'auto t = "WORK-3999";\n'), [])
        self.assertTrue(run(rules.requirements_resolve, 'tools/x.py', '"""Source: WORK-3999."""\n'))

    def test_comments_alone(self):
        self.assertEqual(cpp_text.comments_only('a(); // b "c"\n"// d" /* e\nf */ g'),
                         '     // b "c"\n       /* e\nf */  ')

    def test_sleeps(self):
        for path, text in (('test/integration/x.py', '    time.sleep(1)\n'),
                           ('test/integration/x.py', "PROGRAM = 'import time; time.sleep(600)'\n"),
                           ('test/integration/x.py', 'from time import monotonic, sleep\n'),
                           ('test/http/x.cpp', 'std::this_thread::sleep_for(1ms);\n'),
                           ('test/unit/x.cpp', 'sleep_until(t);\n'), ('test/unit/x.hpp', '::usleep(1);\n'),
                           ('test/unit/x.cpp', '::sleep(1);\n')):
            self.assertTrue(run(rules.no_sleeps, path, text), text)
        for path, text in ((rules.SLEEPERS[0], 'time.sleep(seconds)\n'), ('tools/x.py', 'time.sleep(1)\n'),
                           ('test/integration/x.py', "pause(1, 'a pace')\n"),
                           ('net/x.cpp', 'sleep_for(1ms);\n'), ('test/unit/x.cpp', '// sleep_for\n'),
                           ('test/unit/x.cpp', 'share().sleep();\n'),
                           (rules.PACED[0] + 'x.py', 'time.sleep(1)\n')):
            self.assertEqual(run(rules.no_sleeps, path, text), [], text)

    def test_plain_files(self):
        for text in ('std::ifstream in(path);\n', 'auto f = std::fopen(path, "r");\n', '#include <fstream>\n',
                     'int f = ::open(p, 0);\n'):
            self.assertTrue(run(rules.plain_files_only, 'app/x.cpp', text), text)
        for path, text in (('app/x.cpp', 'gguf_file::open(path);\n'), ('app/x.cpp', '// ::open( waits\n'),
                           (rules.OPENERS[0], '::open(path, 0);\n'),
                           ('test/x.cpp', 'std::ifstream in(p);\n')):
            self.assertEqual(run(rules.plain_files_only, path, text), [], text)

    def test_complaints(self):
        for text in ('std::cerr << why << "\\n";\n', 'err << path;\n', 'std::fprintf(stderr, "%s", why);\n',
                     'std::fputs(why.c_str(), stderr);\n'):
            self.assertTrue(run(rules.escaped_complaints, 'app/x.cpp', text), text)
        for path, text in (('app/x.cpp', 'err << complaint("x", why) << usage();\n'),
                           ('app/x.cpp', 'run(words, std::cin, std::cout, std::cerr);\n'),
                           ('app/x.cpp', 'std::fputs(text.c_str(), stdout);\n'),
                           ('test/x.cpp', 'std::cerr << why;\n')):
            self.assertEqual(run(rules.escaped_complaints, path, text), [], text)

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


class Classes(unittest.TestCase):
    HEAD = {'net/x.hpp': HEADER + 'class worker {\n  void a();\n};\n'}

    def large(self, *methods, larger=None, path='net/x.cpp'):
        text = ''.join(f'void worker::{name}() {{\n}}\n' for name in methods)
        sources = {**self.HEAD, path: text, 'net/z.cpp': 'void worker::a() {\n  b::c();\n  std::d();\n}\n'}
        return list(classes.too_large(sources, larger or {}))

    def test_one_source(self):
        self.assertEqual(self.large('a', path='net/z.cpp'), [])
        self.assertEqual(self.large('b'),
                         ['worker:1: 2 methods in 2 sources, limit 30 in 1: parts own their state'])
        self.assertEqual(self.large('b', larger={'worker': classes.Size(2, 2)}), [])

    def test_methods(self):
        most = classes.METHODS_MAX
        names = [f'm{i}' for i in range(most)]
        text = ''.join(f'int worker::{name}(int a) const {{\n  return a;\n}}\n' for name in names)
        self.assertEqual(list(classes.too_large({**self.HEAD, 'net/x.cpp': text}, {})), [])
        more = text + 'worker::worker() {\n}\n'
        self.assertEqual(len(list(classes.too_large({**self.HEAD, 'net/x.cpp': more}, {}))), 1)

    def test_a_row_only_falls(self):
        self.assertEqual(self.large('b', larger={'worker': classes.Size(3, 2)}),
                         ['worker:1: 2 methods in 2 sources: its row in LARGER has more'])

    def test_what_is_no_class(self):
        free = {**self.HEAD, 'net/x.cpp': 'void engine::a() {\n}\n', 'net/y.cpp': 'void engine::b() {\n}\n'}
        self.assertEqual(list(classes.too_large(free, {})), [])


class Dead(unittest.TestCase):
    USED = {'net/x.hpp': HEADER + 'int used(int a);\n', 'net/x.cpp': 'int used(int a) {\n  return a;\n}\n'}

    def test_unused(self):
        self.assertEqual(list(dead.unused(self.USED)), ['net/x.hpp:3: nothing uses used()'])
        inline = {'net/x.hpp': HEADER + 'struct s {\n  int get() const noexcept { return 1; }\n};\n'}
        self.assertEqual(list(dead.unused(inline)), ['net/x.hpp:4: nothing uses get()'])

    def test_used(self):
        for more in ({'net/y.cpp': 'int b = used(1);\n'}, {'test/unit/x.cpp': 'int b = used(1);\n'},
                     {'net/x.cpp': self.USED['net/x.cpp'] + 'int b = used(2);\n'}):
            self.assertEqual(list(dead.unused({**self.USED, **more})), [])
        own = {'net/x.hpp': HEADER + 'struct s {\n  int get() const { return 1; }\n  int f();\n};\n',
               'net/x.cpp': 'int s::f() {\n  return get();\n}\n', 'net/y.cpp': 'int a = s().f();\n'}
        self.assertEqual(list(dead.unused(own)), [])

    def test_calls_and_overrides(self):
        text = 'inline int g(float x) {\n  return roundf(x);\n}\nvoid h() override;\nint a = g(1);\n'
        self.assertEqual(list(dead.unused({'net/x.hpp': HEADER + text})), [])


class Folders(unittest.TestCase):
    def test_crowded(self):
        many = [PurePosixPath(f'net/json/{n}.hpp') for n in range(46)]
        self.assertEqual(len(list(check_style.crowded(many))), 1)
        self.assertEqual(list(check_style.crowded(many[:45] + [PurePosixPath('net/a.hpp')])), [])


class Project(unittest.TestCase):
    def test_walk_and_corpora(self):
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder)
            self.assertEqual(check_style.check_project(project), (0, []))
            (project / 'net' / 'json').mkdir(parents=True)
            (project / 'net' / 'json' / 'x.hpp').write_text(HEADER)
            self.assertEqual(check_style.check_project(project), (1, []))
            (project / 'net' / 'json' / 'y.cpp').write_text('int a; // FIXME\n')
            self.assertEqual(len(check_style.check_project(project)[1]), 1)
            (project / 'net' / 'json' / 'y.cpp').write_bytes(b'// \xff\n')
            self.assertEqual(len(check_style.check_project(project)[1]), 1)
            (project / 'net' / 'json' / 'y.cpp').unlink()
            (project / 'test' / 'fuzz').mkdir(parents=True)
            (project / 'test' / 'fuzz' / 'gguf.cpp').write_text('int a;\n')
            self.assertIn('no corpus', check_style.check_project(project)[1][0])
            corpus = project / 'test' / 'fuzz' / 'corpus' / 'gguf'
            corpus.mkdir(parents=True)
            self.assertEqual(len(check_style.check_project(project)[1]), 1)
            (corpus / 'one').write_text('FIXME\n')
            self.assertEqual(check_style.check_project(project), (2, []))

    def test_includes_are_looked_at_together(self):
        with tempfile.TemporaryDirectory() as folder:
            room = Path(folder) / 'net' / 'json'
            room.mkdir(parents=True)
            (room / 'a.hpp').write_text(HEADER + '#include "net/json/b.hpp"\n')
            (room / 'b.hpp').write_text(HEADER)
            self.assertEqual(check_style.check_project(Path(folder)), (2, []))
            upward = '#include "net/http/c.hpp"\n'
            (room / 'b.hpp').write_text(HEADER + '#include "net/json/a.hpp"\n' + upward)
            checked, breaches = check_style.check_project(Path(folder))
            self.assertEqual(checked, 2)
            self.assertEqual(len(breaches), 2)
            self.assertIn('circle of includes: net/json/a, net/json/b', breaches[0])
            self.assertIn('net/json/b.hpp:4: net/json may not include net/http/c.hpp', breaches[1])

    def test_every_rule_has_a_test(self):
        own = Path(__file__).read_text(encoding='utf-8')
        for rule in rules.RULES:
            self.assertIn(f'rules.{rule.__name__}', own)


if __name__ == '__main__':
    unittest.main()
