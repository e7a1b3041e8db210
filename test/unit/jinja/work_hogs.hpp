// Templates that do as much as they can of one kind of operation.
#pragma once

namespace orcd::test {

struct hog {
  const char* kind;
  const char* source;
};

constexpr hog hogs[] = {
    {"in, needle of half the text", "{{ ('a' * 2000000 + 'b') in 'a' * 4000000 }}"},
    {"in, needle b in front", "{{ ('b' + 'a' * 2000000) in 'a' * 4000000 }}"},
    {"in, short needle that nearly matches",
     "{% set t = 'a' * 4000000 %}{% for i in range(9999) %}{% set x = 'aaaaaaaab' in t %}{% endfor %}"},
    {"in, ab needle",
     "{% set t = 'ab' * 2000000 %}{% for i in range(9999) %}{% set x = 'abababac' in t %}{% endfor %}"},
    {"in, absent byte",
     "{% set t = 'a' * 4000000 %}{% for i in range(9999) %}{% set x = 'xy' in t %}{% endfor %}"},
    {"in, sparse",
     "{% set t = ('a' * 40 + 'x') * 100000 %}{% for i in range(9999) %}{% set x = 'xy' in t %}{% endfor %}"},
    {"in, sparse long",
     "{% set t = ('a' * 40 + 'x') * 100000 %}{% set n = 'x' + 'a' * 40 + 'y'%}{% for i in range(9999) %}{% "
     "set x = n in t %}{% endfor %}"},
    {"find, period",
     "{% set n = 'ab' * 500000 + 'b' %}{% set t = 'ab' * 2000000 %}{% for i in range(999) %}{% set x = "
     "t.find(n) %}{% endfor %}"},
    {"find long",
     "{% set n = 'a' * 1000000 + 'b' %}{% set t = 'a' * 2000000 %}{% for i in range(999) %}{% set x = "
     "t.find(n) %}{% endfor %}"},
    {"find middle",
     "{% set n = 'a' * 500000 + 'b' + 'a' * 500000 %}{% set t = 'a' * 2000000 %}{% for i in range(999) %}{% "
     "set x = t.find(n) %}{% endfor %}"},
    {"rfind",
     "{% set n = 'b' + 'a' * 500000 %}{% set t = 'a' * 2000000 %}{% for i in range(999) %}{% set x = "
     "t.rfind(n) %}{% endfor %}"},
    {"rfind end",
     "{% set n = 'a' * 500000 + 'b' %}{% set t = 'a' * 2000000 %}{% for i in range(999) %}{% set x = "
     "t.rfind(n) %}{% endfor %}"},
    {"rfind absent",
     "{% set t = 'a' * 4000000 %}{% for i in range(9999) %}{% set x = t.rfind('xy') %}{% endfor %}"},
    {"count", "{% set t = 'a' * 4000000 %}{% for i in range(999) %}{% set x = t.count('a') %}{% endfor %}"},
    {"count aa",
     "{% set t = 'a' * 4000000 %}{% for i in range(999) %}{% set x = t.count('aa') %}{% endfor %}"},
    {"count ab",
     "{% set t = 'aab' * 1000000 %}{% for i in range(999) %}{% set x = t.count('ab') %}{% endfor %}"},
    {"count long",
     "{% set t = 'a' * 4000000 %}{% set n='a'*1000 %}{% for i in range(999) %}{% set x = t.count(n) %}{% "
     "endfor %}"},
    {"count empty",
     "{% set t = 'a' * 4000000 %}{% for i in range(999) %}{% set x = t.count('') %}{% endfor %}"},
    {"replace",
     "{% set t = 'a' * 100000 %}{% for i in range(999) %}{% set x = t.replace('a', '') %}{% endfor %}"},
    {"replace nothing",
     "{% set t = 'a' * 4000000 %}{% for i in range(999) %}{% set x = t.replace('aab', '') %}{% endfor %}"},
    {"replace between",
     "{% set t = 'a' * 100000 %}{% for i in range(999) %}{% set x = t.replace('', 'b') %}{% endfor %}"},
    {"split", "{% set t = 'a,' * 20000 %}{% for i in range(999) %}{% set x = t.split(',') %}{% endfor %}"},
    {"rsplit", "{% set t = 'a,' * 20000 %}{% for i in range(999) %}{% set x = t.rsplit(',') %}{% endfor %}"},
    {"split words", "{% set t = 'a ' * 20000 %}{% for i in range(999) %}{% set x = t.split() %}{% endfor %}"},
    {"split words of U+3000",
     "{% set t = '\u3000' * 4000000 %}{% for i in range(999) %}{% set x = t.split() %}{% endfor %}"},
    {"split one word",
     "{% set t = '\u3001' * 1000000 %}{% for i in range(999) %}{% set x = t.split() %}{% endfor %}"},
    {"rsplit words",
     "{% set t = 'a ' * 20000 %}{% for i in range(999) %}{% set x = t.rsplit() %}{% endfor %}"},
    {"splitlines",
     "{% set t = 'a\n' * 20000 %}{% for i in range(999) %}{% set x = t.splitlines() %}{% endfor %}"},
    {"splitlines none",
     "{% set t = '\u3001' * 1000000 %}{% for i in range(999) %}{% set x = t.splitlines() %}{% endfor %}"},
    {"partition",
     "{% set t = 'a' * 4000000 %}{% for i in range(999) %}{% set x = t.partition('aab') %}{% endfor %}"},
    {"rpartition",
     "{% set t = 'a' * 4000000 %}{% for i in range(999) %}{% set x = t.rpartition('baa') %}{% endfor %}"},
    {"startswith",
     "{% set t = 'a' * 4000000 %}{% set p = (t,) * 100000 %}{% for i in range(999) %}{% set x = (t ~ "
     "'b').startswith(p) %}{% set x = (t[1:] ~ 'b').endswith(p) %}{% endfor %}"},
    {"startswith tuple",
     "{% set t = 'a' * 4000000 %}{% set p = ('b',) * 100000 %}{% for i in range(999) %}{% set x = "
     "t.startswith(p) %}{% endfor %}"},
    {"strip", "{% set t = ' ' * 4000000 %}{% for i in range(999) %}{% set x = t.strip() %}{% endfor %}"},
    {"lstrip wide",
     "{% set t = '\u3000' * 4000000 %}{% for i in range(999) %}{% set x = t.lstrip() %}{% endfor %}"},
    {"rstrip wide",
     "{% set t = '\u3000' * 4000000 %}{% for i in range(999) %}{% set x = t.rstrip() %}{% endfor %}"},
    {"strip set",
     "{% set t = 'a' * 4000000 %}{% set n = 'b' * 2000000 ~ 'a' %}{% for i in range(999) %}{% set x = "
     "t.strip(n) %}{% endfor %}"},
    {"strip wide set",
     "{% set t = '\u3001\u3000\u4000' * 400000 %}{% for i in range(999) %}{% set x = t.strip(t) %}{% endfor "
     "%}"},
    {"strip wide small set",
     "{% set t = '\u3001\u3000\u4000' * 400000 %}{% for i in range(999) %}{% set x = "
     "t.strip('\u3000\u3001\u3002\u3003\u3004\u3005\u4000') %}{% endfor %}"},
    {"upper", "{% set t = 'a' * 500000 %}{% for i in range(999) %}{% set x = t.upper() %}{% endfor %}"},
    {"upper wide",
     "{% set t = '\u044f' * 200000 %}{% for i in range(999) %}{% set x = t.upper() %}{% endfor %}"},
    {"title", "{% set t = 'a ' * 200000 %}{% for i in range(999) %}{% set x = t.title() %}{% endfor %}"},
    {"|title", "{% set t = 'a-' * 200000 %}{% for i in range(999) %}{% set x = t|title %}{% endfor %}"},
    {"|capitalize",
     "{% set t = 'A' * 200000 %}{% for i in range(999) %}{% set x = t|capitalize %}{% endfor %}"},
    {"isalpha", "{% set t = 'A' * 2000000 %}{% for i in range(999) %}{% set x = t.isalpha() %}{% endfor %}"},
    {"islower",
     "{% set t = '\u3001' * 2000000 %}{% for i in range(999) %}{% set x = t.islower() %}{% endfor %}"},
    {"join", "{% set t = ['a'] * 100000 %}{% for i in range(999) %}{% set x = ','.join(t) %}{% endfor %}"},
    {"|join", "{% set t = ['a'] * 100000 %}{% for i in range(999) %}{% set x = t|join(',') %}{% endfor %}"},
    {"|join numbers",
     "{% set t = [9223372036854775807] * 100000 %}{% for i in range(999) %}{% set x = t|join(',') %}{% "
     "endfor %}"},
    {"|join reals",
     "{% set t = [1.2345678901234567] * 100000 %}{% for i in range(999) %}{% set x = t|join(',') %}{% endfor "
     "%}"},
    {"|join lists",
     "{% set t = [[]] * 100000 %}{% for i in range(999) %}{% set x = t|join(',') %}{% endfor %}"},
    {"zfill",
     "{% set t = '\u3001' * 4000000 %}{% for i in range(999) %}{% set x = t.zfill(5) %}{% endfor %}"},
    {"rjust", "{% for i in range(999) %}{% set x = 'a'.rjust(60000, '\u3001') %}{% endfor %}"},
    {"format plain",
     "{% set t = 'a' * 4000000 %}{% for i in range(999) %}{% set x = t.format() %}{% endfor %}"},
    {"format", "{% set t = '{0}' * 100000 %}{% for i in range(999) %}{% set x = t.format('') %}{% endfor %}"},
    {"format named",
     "{% set t = '{b}' * 100000 %}{% for i in range(999) %}{% set x = "
     "t.format(a=1,c=2,d=4,e=4,f=4,g=4,h=5,i=5,j=6,k=5,b='') %}{% endfor %}"},
    {"format braces",
     "{% set t = '{{' * 100000 %}{% for i in range(999) %}{% set x = t.format('') %}{% endfor %}"},
    {"percent s",
     "{% set t = '%s' * 10000 %}{% set v = ('',) * 10000 %}{% for i in range(999) %}{% set x = t % v %}{% "
     "endfor %}"},
    {"percent d",
     "{% set t = '%d' * 10000 %}{% set v = (1,) * 10000 %}{% for i in range(999) %}{% set x = t % v %}{% "
     "endfor %}"},
    {"percent f",
     "{% set t = '%f' * 10000 %}{% set v = (1e308,) * 10000 %}{% for i in range(999) %}{% set x = t % v %}{% "
     "endfor %}"},
    {"percent 1000f",
     "{% set t = '%.1000f' * 1000 %}{% set v = (1e308/3,) * 1000 %}{% for i in range(999) %}{% set x = t % v "
     "%}{% endfor %}"},
    {"percent 1000f small",
     "{% set t = '%.1000f' * 1000 %}{% set v = (1e-308/3,) * 1000 %}{% for i in range(999) %}{% set x = t % "
     "v %}{% endfor %}"},
    {"percent flags",
     "{% set t = '%' ~ '-' * 2000000 ~ 's' %}{% for i in range(999) %}{% set x = t % ('',) %}{% endfor %}"},
    {"percent wide",
     "{% set t = '%1000s' * 100 %}{% set v = ('',) * 100 %}{% for i in range(999) %}{% set x = t % v %}{% "
     "endfor %}"},
    {"list in", "{% set t = [1] * 100000 %}{% for i in range(9999) %}{% set x = 2 in t %}{% endfor %}"},
    {"list in strings",
     "{% set t = ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'] * 100000 %}{% for i in range(9999) %}{% set x = "
     "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab' in t %}{% endfor %}"},
    {"list equal",
     "{% set t = [1] * 100000 %}{% set u = [1] * 100000 %}{% for i in range(9999) %}{% set x = t == u %}{% "
     "endfor %}"},
    {"list equal long texts",
     "{% set a = 'a' * 1000000 %}{% set b = 'a' * 1000000 %}{% set t = [a] * 1000 %}{% set u = [b] * 1000 "
     "%}{% for i in range(9999) %}{% set x = t == u %}{% endfor %}"},
    {"nested equal",
     "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b "
     "= [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}"},
    {"nested less",
     "{% set ns = namespace(a=[1], b=[2]) %}{% for i in range(500) %}{% set ns.a = [ns.a] %}{% set ns.b = "
     "[ns.b] %}{% endfor %}{% for i in range(9999) %}{% set x = ns.a < ns.b %}{% endfor %}"},
    {"dict equal",
     "{% set a = {'a':1,'b':2,'c':3,'d':4} %}{% set b = {'d':4,'c':3,'b':2,'a':1} %}{% set t = [a] * 1000 "
     "%}{% set u = [b] * 1000 %}{% for i in range(9999) %}{% set x = t == u %}{% endfor %}"},
    {"list index",
     "{% set t = [1] * 100000 + [2] %}{% for i in range(9999) %}{% set x = t.index(2) %}{% endfor %}"},
    {"list count",
     "{% set t = [1.5] * 100000 + [2] %}{% for i in range(9999) %}{% set x = t.count(2) %}{% endfor %}"},
    {"unique", "{{ range(99999)|unique|list|length }}"},
    {"unique texts",
     "{% set t = 'aa ' * 30000 %}{% for i in range(9999) %}{{ t.split()|unique|list|length }}{% endfor %}"},
    {"sort", "{% set t = range(50000,0,-1)|list %}{% for i in range(99) %}{% set x = t|sort %}{% endfor %}"},
    {"sort pattern",
     "{% set t = [3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3,2,3,8,4] * 1000 %}{% for i in range(99) %}{% set x = "
     "t|sort %}{% endfor %}"},
    {"sort texts",
     "{% set t = ('Abc Zbc Mbc ' * 3000).split() %}{% for i in range(99) %}{% set x = t|sort %}{% endfor %}"},
    {"min", "{% set t = range(99999)|list %}{% for i in range(999) %}{% set x = t|min %}{% endfor %}"},
    {"sum", "{% set t = range(99999)|list %}{% for i in range(999) %}{% set x = t|sum %}{% endfor %}"},
    {"sum lists",
     "{% set t = [[1]] * 3000 %}{% for i in range(999) %}{% set x = t|sum(start=[]) %}{% endfor %}"},
    {"map upper",
     "{% set t = ['a'] * 10000 %}{% for i in range(999) %}{% set x = t|map('upper')|list %}{% endfor %}"},
    {"map attribute",
     "{% set t = [{'a': {'b': 1}}] * 10000 %}{% for i in range(999) %}{% set x = t|map(attribute='a.b')|list "
     "%}{% endfor %}"},
    {"map long path",
     "{% set ns = namespace() %}{% set ns.me = ns %}{% set p = 'me.' * 300000 ~ 'me' %}{% for i in "
     "range(999) %}{% set x = [ns]|map(attribute=p)|list %}{% endfor %}"},
    {"map index",
     "{% set t = [[1]] * 10000 %}{% for i in range(999) %}{% set x = t|map(attribute=0)|list %}{% endfor %}"},
    {"select",
     "{% set t = [1] * 10000 %}{% for i in range(999) %}{% set x = t|select('even')|list %}{% endfor %}"},
    {"selectattr",
     "{% set t = [{'a': 1}] * 10000 %}{% for i in range(999) %}{% set x = t|selectattr('a', 'equalto', "
     "2)|list %}{% endfor %}"},
    {"reverse", "{% set t = [1] * 10000 %}{% for i in range(999) %}{% set x = t|reverse|list %}{% endfor %}"},
    {"reverse text",
     "{% set t = '\u3001' * 10000 %}{% for i in range(999) %}{% set x = t|reverse %}{% endfor %}"},
    {"items",
     "{% set d = {'a':1,'b':2,'c':3,'d':4} %}{% for i in range(99999) %}{% set x = d.items() %}{% endfor %}"},
    {"batch", "{% set t = [1] * 10000 %}{% for i in range(999) %}{% set x = t|batch(1)|list %}{% endfor %}"},
    {"list repeat", "{% for i in range(999) %}{% set x = [1] * 10000 %}{% endfor %}"},
    {"list add", "{% set t = [1] * 10000 %}{% for i in range(999) %}{% set x = t + t %}{% endfor %}"},
    {"list slice", "{% set t = [1] * 10000 %}{% for i in range(999) %}{% set x = t[::-1] %}{% endfor %}"},
    {"text repeat", "{% for i in range(9999) %}{% set x = 'a' * 60000 %}{% endfor %}"},
    {"text add", "{% set t = 'a' * 100000 %}{% for i in range(9999) %}{% set x = t + t %}{% endfor %}"},
    {"text ~", "{% set t = 'a' * 100000 %}{% for i in range(9999) %}{% set x = t ~ t %}{% endfor %}"},
    {"big ~", "{% set t = 'a' * 20000000 %}{% set x = t ~ t %}"},
    {"text slice", "{% set t = 'a' * 4000000 %}{% for i in range(9999) %}{% set x = t[1:] %}{% endfor %}"},
    {"text slice wide",
     "{% set t = '\u3001' * 1000000 %}{% for i in range(9999) %}{% set x = t[1:-1] %}{% endfor %}"},
    {"text slice step",
     "{% set t = 'a' * 100000 %}{% for i in range(9999) %}{% set x = t[::2] %}{% endfor %}"},
    {"text slice wide step",
     "{% set t = '\u3001' * 1000000 %}{% for i in range(9999) %}{% set x = t[::100] %}{% endfor %}"},
    {"text item",
     "{% set t = '\u3001' * 1000000 %}{% for i in range(9999) %}{% set x = t[999990] ~ t[-999990] %}{% "
     "endfor %}"},
    {"text iterate", "{% set t = 'a' * 100000 %}{% for i in range(9999) %}{% set x = t|list %}{% endfor %}"},
    {"text length",
     "{% set t = 'a' * 4000000 %}{% for i in range(9999) %}{% set x = t|length %}{% endfor %}"},
    {"text compare",
     "{% set t = 'a' * 4000000 %}{% set u = 'a' * 4000000 %}{% for i in range(9999) %}{% set x = t < u %}{% "
     "endfor %}"},
    {"loops", "{% set r = range(999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}"},
    {"loop text", "{% set r = range(9999) %}{% for a in r %}{% for b in r %}x{% endfor %}{% endfor %}"},
    {"loop if",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r if false %}x{% endfor %}{% endfor %}"},
    {"loop arithmetic",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = a * b + 1 %}{% endfor %}{% endfor "
     "%}"},
    {"fmod",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = 1e308 % 3e-300 %}{% endfor %}{% "
     "endfor %}"},
    {"pow",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = 1.0000001 ** 123456.7 %}{% endfor "
     "%}{% endfor %}"},
    {"loop attributes",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = loop.previtem %}{% endfor %}{% "
     "endfor %}"},
    {"methods of text",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = ''.rjust %}{% endfor %}{% endfor "
     "%}"},
    {"attributes of dict",
     "{% set d = {'abcdefg1':1, 'abcdefg2':1,'abcdefg3':1,'abcdefg4':1} %}{% set r = range(9999) %}{% for a "
     "in r %}{% for b in r %}{% set x = d.abcdefg5 %}{% endfor %}{% endfor %}"},
    {"attributes of namespace",
     "{% set d = namespace(abcdefg1=1, abcdefg2=1, abcdefg3=1) %}{% set r = range(9999) %}{% for a in r %}{% "
     "for b in r %}{% set x = d.abcdefg5 %}{% endfor %}{% endfor %}"},
    {"macro",
     "{% macro m(a, b) %}{% endmacro %}{% set r = range(9999) %}{% for a in r %}{% for b in r %}{{ m(1, b=2) "
     "}}{% endfor %}{% endfor %}"},
    {"capture",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x %}a{% endset %}{% endfor %}{% endfor "
     "%}"},
    {"deep expression",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = "
     "((((((((((1+1)+1)+1)+1)+1)+1)+1)+1)+1)+1) %}{% endfor %}{% endfor %}"},
    {"tests",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = a is divisibleby 3 %}{% endfor "
     "%}{% endfor %}"},
    {"test filter",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = 'x' is filter %}{% endfor %}{% "
     "endfor %}"},
    {"round",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = 1.5e300|round(340) %}{% endfor "
     "%}{% endfor %}"},
    {"round small",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set x = 1.2345e-300|round(340) %}{% endfor "
     "%}{% endfor %}"},
    {"int",
     "{% set t = ' ' ~ '9' * 1000000 %}{% set r = range(9999) %}{% for a in r %}{% set x = t|int %}{% endfor "
     "%}"},
    {"float",
     "{% set t = '1.' ~ '9' * 1000000 %}{% set r = range(9999) %}{% for a in r %}{% set x = t|float %}{% "
     "endfor %}"},
    {"strftime",
     "{% set r = range(9999) %}{% set f = '%c' * 100 %}{% for a in r %}{% set x = strftime_now(f) %}{% "
     "endfor %}"},
    {"tojson text", "{% set t = 'a' * 400000 %}{% for a in range(999) %}{% set x = t|tojson %}{% endfor %}"},
    {"tojson escapes",
     "{% set t = '\u0001' * 100000 %}{% for a in range(999) %}{% set x = t|tojson %}{% endfor %}"},
    {"tojson ascii",
     "{% set t = '\U00010000' * 100000 %}{% for a in range(999) %}{% set x = t|tojson(ensure_ascii=true) "
     "%}{% endfor %}"},
    {"tojson list", "{% set t = [1] * 100000 %}{% for a in range(999) %}{% set x = t|tojson %}{% endfor %}"},
    {"tojson reals",
     "{% set t = [1.2345678901234567] * 100000 %}{% for a in range(999) %}{% set x = t|tojson %}{% endfor "
     "%}"},
    {"tojson pretty",
     "{% set t = [[[[[[[[[[[1]]]]]]]]]]] * 100000 %}{% for a in range(999) %}{% set x = t|tojson(indent='') "
     "%}{% endfor %}"},
    {"tojson separators",
     "{% set t = [1] * 1000 %}{% set s = 'a' * 10000 %}{% for a in range(999) %}{% set x = "
     "t|tojson(separators=(s, s)) %}{% endfor %}"},
    {"tojson sorted",
     "{% set d = {'f':1,'e':1,'d':1,'c':1,'b':1,'a':1} %}{% set t = [d] * 10000 %}{% for a in range(999) "
     "%}{% set x = t|tojson(sort_keys=true) %}{% endfor %}"},
    {"repr",
     "{% set t = ['\u3000' * 10000] * 10 %}{% for a in range(999) %}{% set x = t|string %}{% endfor %}"},
    {"repr undefined",
     "{% set t = [nosuch] * 100000 %}{% for a in range(999) %}{% set x = t|string %}{% endfor %}"},
    {"indent", "{% set t = '\n' * 100000 %}{% for a in range(999) %}{% set x = t|indent(0) %}{% endfor %}"},
    {"indent none",
     "{% set t = '\u3001' * 100000 %}{% for a in range(999) %}{% set x = t|indent(0) %}{% endfor %}"},
    {"escape", "{% set t = '&' * 100000 %}{% for a in range(999) %}{% set x = t|e %}{% endfor %}"},
    {"wordcount",
     "{% set t = '\u3001a ' * 1000000 %}{% for a in range(999) %}{% set x = t|wordcount %}{% endfor %}"},
    {"dict build",
     "{% for a in range(99999) %}{% set x = {'abcdefg1':1, "
     "'abcdefg2':1,'abcdefg3':1,'abcdefg4':1,'abcdefg5':1} %}{% endfor %}"},
    {"spread arguments",
     "{% macro m() %}{{ varargs|length }}{% endmacro %}{% set t = [1] * 10000 %}{% for a in range(999) "
     "%}{% set x = m(*t) %}{% endfor %}"},
    {"macro recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
    {"strip small wide set",
     "{% set t = '\u3001\u3000\u4000' * 1000 %}{% for i in range(9999) %}{% set x = 'a'.strip(t) %}{% endfor "
     "%}"},
    {"attributes of one name",
     "{% set d = {'a': {'a': 1}} %}{% for i in range(99999) %}{% set x = d.a.a %}{% set y = d['a']['a'] %}{% "
     "endfor %}"},
    {"replace growing",
     "{% set t = 'a' * 1000 %}{% for i in range(999) %}{% set x = t.replace('a', t) %}{% endfor %}"},
    {"nested loops over texts",
     "{% for i in range(9999) %}{% for c in 'abcdefghij' %}{{ c }}{% endfor %}{% endfor %}"},
    {"range", "{% for a in range(99999) %}{% set x = range(10000) %}{% endfor %}"},
    {"big strings growth", "{% set t = 'a' * 15000000 %}{% set x = t|upper %}"},
};

/// As many parts as a source has room for; each # is another number.
struct source_hog {
  const char* begin;
  const char* part;
  const char* end;
};

constexpr source_hog source_hogs[] = {
    {"{{ (a", ",a", ") }}"},
    {"{{ (a", ",b#", ") }}"},
    {"{{ (a", ",aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa#", ") }}"},
    {"{{ (a", ",1", ") }}"},
    {"{{ (a", ",.1", ") }}"},
    {"{{ (a", ",0.1", ") }}"},
    {"{{ 1.", "1", " }}"},
    {"{{ 1", "1", " }}"},
    {"{{ 1.", "1_", "1 }}"},
    {"{{ ''", "''", " }}"},
    {"{{ '", "\\n", "' }}"},
    {"{{ '", "a", "' }}"},
    {"{{ [", "[],", "] }}"},
    {"{{ [", "{},", "] }}"},
    {"{{ a", ".b", " }}"},
    {"{{ a", "|b", " }}"},
    {"{{ a", "|e", " }}"},
    {"{{ a", "()", " }}"},
    {"{{ a", "[0]", " }}"},
    {"{{ a", "[:]", " }}"},
    {"{{ a", " is b", " }}"},
    {"{{ a", " and b", " }}"},
    {"{{ a", "<b", " }}"},
    {"{{ a", "==b", " }}"},
    {"{{ a", "~b", " }}"},
    {"{{ a", "+b", " }}"},
    {"{{ a", "**b", " }}"},
    {"{{ a", " if b", " }}"},
    {"{{ a(", "b=c,", ") }}"},
    {"{{ {", "a:b,", "} }}"},
    {"", "{{a}}", ""},
    {"", "{{a}}b", ""},
    {"", "{%if a%}{%endif%}", ""},
    {"", "{%set a=b%}", ""},
    {"", "{%set b#=b%}", ""},
    {"", "{%for a in b%}{%endfor%}", ""},
    {"", "{%macro a()%}{%endmacro%}", ""},
    {"{%if a%}", "{%elif a%}", "{%endif%}"},
    {"{%set ", "a,", "=1%}"},
    {"{%macro m(", "a,", ")%}{%endmacro%}"},
    {"", "{##}", ""},
    {"{#", "#", "#}"},
    {"", "{", ""},
    {"", "\n", ""},
    {"", "\r", ""},
    {"", " ", "{%-if a%}{%endif%}"},
    {"{{ a }}", " ", ""},
    {"{{ a", " ", "}}"},
    {"{{ a", "\u3000", "}}"},
    {"{{ a -}}", "\u3000", "{{- a }}"},
    {"{%raw%}", "{%", "{%endraw%}"},
    {"{%raw%}", "{% ", "{%endraw%}"},
    {"", "{%raw%}{%endraw%}", ""},
    {"", "<", ""},
    {"", "<|", ""},
    {"", "<tool", ""},
    {"", "<tool_call", ""},
    {"", "\xC3\xA9", ""},
};

}  // namespace orcd::test
