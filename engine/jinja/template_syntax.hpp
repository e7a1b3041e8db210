// A compiled template: its expressions and statements. Everything lies in the program's arena and is
// immutable.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/template_arena.hpp"
#include "engine/jinja/template_limits.hpp"
#include "engine/jinja/template_value.hpp"

namespace orcd::engine::jinja {

enum class expression_kind : std::uint8_t {
  constant,
  variable,   ///< id
  attribute,  ///< a.name
  item,       ///< a[b]
  slice,      ///< a[items[0]:items[1]:items[2]], absent ones are nullptr
  call,       ///< a(items, named)
  filter,     ///< a|name(items, named); a is nullptr in a filter block
  test,       ///< a is name(items)
  list,
  tuple,
  dict,  ///< items: key, value, key, value
  negate,
  plus,
  negation,
  both,
  either,
  choice,   ///< b if a else c; c may be nullptr
  concat,   ///< items joined with ~
  compare,  ///< a, then items with comparisons
  binary,
};

enum class operation : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct expression;

struct named_expression {
  std::string_view name;
  const expression* item;
};

struct filter_row;
struct test_row;

struct expression {
  expression_kind kind = expression_kind::constant;
  operation op = operation::add;
  std::uint32_t line = 0;
  std::uint32_t id = 0;  ///< id of a variable's name
  std::string_view name;
  value constant;
  const expression* a = nullptr;
  const expression* b = nullptr;
  const expression* c = nullptr;
  std::span<const expression* const> items;
  std::span<const named_expression> named;
  std::span<const operation> comparisons;
  const expression* spread = nullptr;        ///< *x of a call
  const expression* spread_named = nullptr;  ///< **x of a call
  const filter_row* filter = nullptr;
  const test_row* test = nullptr;
};

enum class statement_kind : std::uint8_t {
  text,
  print,
  branch,
  loop,
  assign,
  capture,  ///< block set
  macro,
  call_block,
  filter_block,
  scope,  ///< with, generation
  leave,  ///< break
  resume  ///< continue
};

struct statement;
using block = std::span<const statement* const>;

/// One if or elif; `condition` is nullptr in the else.
struct branch_arm {
  const expression* condition;
  block body;
};

/// The target of an assignment: a name, several names, or an attribute of a namespace.
struct assign_target {
  std::uint32_t id = 0;
  std::string_view name;
  std::string_view attribute;              ///< empty = the name itself
  std::span<const assign_target> several;  ///< not empty = unpack
};

struct macro_parameter {
  std::uint32_t id;
  std::string_view name;
  const expression* fallback;  ///< nullptr: none
};

struct macro_syntax {
  std::string_view name;
  std::uint32_t id = 0;
  std::span<const macro_parameter> parameters;
  block body;
  bool takes_varargs = false;
  bool takes_kwargs = false;
  bool takes_caller = false;
};

struct statement {
  statement_kind kind = statement_kind::text;
  std::uint32_t line = 0;
  std::string_view text;
  const expression* a = nullptr;          ///< printed, iterated, assigned, called or filtered
  const expression* condition = nullptr;  ///< the condition of a loop
  std::span<const branch_arm> arms;
  std::span<const assign_target> targets;
  std::span<const expression* const> values;  ///< values for a scope's targets
  block body;
  block otherwise;
  const macro_syntax* macro = nullptr;
};

/// Names that have a meaning of their own; their ids are the first, in this order.
enum reserved_name : std::uint32_t { name_loop, name_caller, name_varargs, name_kwargs, reserved_names };

struct program {
  explicit program(const template_limits& l) : limits(l), memory(l.memory_bytes) {}
  template_limits limits;
  arena memory;
  block body;
  std::vector<std::string_view> names;  ///< names of variables, by id
  /// Ids by name. A tree, because names can be chosen so that all of them collide in a hash table.
  std::map<std::string_view, std::uint32_t> ids;
};

}  // namespace orcd::engine::jinja
