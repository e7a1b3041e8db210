// The part of the parser for expressions.
#include <array>

#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_parser.hpp"

namespace orcd::engine::jinja {

expression* parser::node(expression_kind kind) {
  meter_.charge(cost::built);
  auto* made = to_.memory.make<expression>();
  made->kind = kind;
  made->line = now().line;
  return made;
}

const expression* parser::binary(operation op, const expression* a, const expression* b) {
  auto* made = node(expression_kind::binary);
  made->op = op;
  made->line = a->line;
  made->a = a;
  made->b = b;
  return made;
}

const expression* parser::parsed_tuple(std::vector<const expression*> items) {
  auto* made = node(expression_kind::tuple);
  made->items = to_.memory.copy(items);
  return made;
}

const expression* parser::parse_expression() {
  const nested guard(*this);
  const expression* left = parse_or();
  while (skip_name("if")) {
    auto* made = node(expression_kind::choice);
    made->b = left;
    made->a = parse_or();
    if (skip_name("else")) made->c = parse_expression();
    left = made;
  }
  return left;
}

const expression* parser::parse_list() {
  const expression* first = parse_expression();
  if (!at_mark(",")) return first;
  std::vector<const expression*> items{first};
  while (skip_mark(",")) {
    const token_kind next = now().kind;
    if (next == token_kind::block_end || next == token_kind::print_end || at_mark(")")) break;
    items.push_back(parse_expression());
  }
  return parsed_tuple(std::move(items));
}

const expression* parser::parse_or() {
  const expression* left = parse_and();
  while (skip_name("or")) {
    auto* made = node(expression_kind::either);
    made->a = left;
    made->b = parse_and();
    left = made;
  }
  return left;
}

const expression* parser::parse_and() {
  const expression* left = parse_not();
  while (skip_name("and")) {
    auto* made = node(expression_kind::both);
    made->a = left;
    made->b = parse_not();
    left = made;
  }
  return left;
}

const expression* parser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const nested guard(*this);
  auto* made = node(expression_kind::negation);
  take();
  made->a = parse_not();
  return made;
}

bool parser::comparison(operation& op) {
  struct mark_operation {
    std::string_view mark;
    operation op;
  };
  constexpr std::array marks{
      mark_operation{"==", operation::equal},  mark_operation{"!=", operation::not_equal},
      mark_operation{"<", operation::less},    mark_operation{"<=", operation::less_equal},
      mark_operation{">", operation::greater}, mark_operation{">=", operation::greater_equal},
  };
  for (const auto& [mark, meaning] : marks) {
    if (skip_mark(mark)) return op = meaning, true;
  }
  if (skip_name("in")) return op = operation::in, true;
  if (at_name("not") && ahead().kind == token_kind::name && ahead().text == "in") {
    take();
    take();
    return op = operation::not_in, true;
  }
  return false;
}

const expression* parser::parse_compare() {
  const expression* left = parse_sum();
  std::vector<const expression*> operands;
  std::vector<operation> operations;
  for (operation op{}; comparison(op);) {
    operations.push_back(op);
    operands.push_back(parse_sum());
  }
  if (operands.empty()) return left;
  if (operands.size() == 1) return binary(operations[0], left, operands[0]);
  auto* made = node(expression_kind::compare);
  made->a = left;
  made->items = to_.memory.copy(operands);
  made->comparisons = to_.memory.copy(operations);
  return made;
}

const expression* parser::parse_sum() {
  const expression* left = parse_concat();
  while (at_mark("+") || at_mark("-")) {
    const operation op = take().text == "+" ? operation::add : operation::subtract;
    left = binary(op, left, parse_concat());
  }
  return left;
}

const expression* parser::parse_concat() {
  const expression* first = parse_product();
  if (!at_mark("~")) return first;
  std::vector<const expression*> items{first};
  while (skip_mark("~")) items.push_back(parse_product());
  auto* made = node(expression_kind::concat);
  made->items = to_.memory.copy(items);
  return made;
}

const expression* parser::parse_product() {
  const expression* left = parse_power();
  while (at_mark("*") || at_mark("/") || at_mark("//") || at_mark("%")) {
    const std::string_view mark = take().text;
    const operation op = mark == "*"    ? operation::multiply
                         : mark == "/"  ? operation::divide
                         : mark == "//" ? operation::floor_divide
                                        : operation::modulo;
    left = binary(op, left, parse_power());
  }
  return left;
}

const expression* parser::parse_power() {
  const expression* left = parse_unary(true);
  while (skip_mark("**")) left = binary(operation::power, left, parse_unary(true));
  return left;
}

const expression* parser::parse_unary(bool with_filters) {
  const nested guard(*this);
  const expression* made = nullptr;
  if (at_mark("-") || at_mark("+")) {
    auto* sign = node(at_mark("-") ? expression_kind::negate : expression_kind::plus);
    take();
    sign->a = parse_unary(false);
    made = sign;
  } else {
    made = parse_primary();
  }
  made = parse_postfix(made);
  return with_filters ? parse_filters(made) : made;
}

const expression* parser::parse_primary() {
  auto* made = node(expression_kind::constant);
  const token& at = now();
  switch (at.kind) {
    case token_kind::integer:
    case token_kind::real: made->constant = take().constant; return made;
    case token_kind::string: {
      std::string text(take().text);
      if (now().kind != token_kind::string) {
        made->constant = make_string(tokens_[at_ - 1].text);
        return made;
      }
      while (now().kind == token_kind::string) text += take().text;
      made->constant = make_string(to_.memory.text(text));
      return made;
    }
    case token_kind::name: {
      const std::string_view name = take().text;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        made->constant = make_bool(name == "true" || name == "True");
      } else if (name == "none" || name == "None") {
        made->constant = make_none();
      } else {
        made->kind = expression_kind::variable;
        made->name = name;
        made->id = id_of(name);
      }
      return made;
    }
    default: break;
  }
  if (at_mark("(")) return parse_parentheses();
  if (at_mark("[")) return parse_brackets();
  if (at_mark("{")) return parse_braces();
  unexpected("an expression");
}

const expression* parser::parse_parentheses() {
  expect_mark("(");
  if (skip_mark(")")) return parsed_tuple({});
  const expression* inner = parse_list();
  expect_mark(")");
  return inner;
}

const expression* parser::parse_brackets() {
  auto* made = node(expression_kind::list);
  expect_mark("[");
  std::vector<const expression*> items;
  while (!at_mark("]")) {
    if (!items.empty()) expect_mark(",");
    if (at_mark("]")) break;
    items.push_back(parse_expression());
  }
  expect_mark("]");
  made->items = to_.memory.copy(items);
  return made;
}

const expression* parser::parse_braces() {
  auto* made = node(expression_kind::dict);
  expect_mark("{");
  std::vector<const expression*> items;
  while (!at_mark("}")) {
    if (!items.empty()) expect_mark(",");
    if (at_mark("}")) break;
    items.push_back(parse_expression());
    expect_mark(":");
    items.push_back(parse_expression());
  }
  expect_mark("}");
  made->items = to_.memory.copy(items);
  return made;
}

const expression* parser::parse_postfix(const expression* from) {
  for (;;) {
    if (at_mark(".")) {
      auto* made = node(expression_kind::attribute);
      take();
      made->a = from;
      if (now().kind == token_kind::integer) {
        auto* index = node(expression_kind::constant);
        index->constant = take().constant;
        made->kind = expression_kind::item;
        made->b = index;
      } else {
        made->name = expect_name();
      }
      from = made;
    } else if (at_mark("[")) {
      from = parse_subscript(from);
    } else if (at_mark("(")) {
      from = parse_call(from);
    } else {
      return from;
    }
  }
}

const expression* parser::parse_subscript(const expression* of) {
  auto* made = node(expression_kind::item);
  expect_mark("[");
  made->a = of;
  std::array<const expression*, 3> parts{};
  std::size_t part = 0;
  bool slices = false;
  for (;;) {
    if (!at_mark(":") && !at_mark("]")) parts[part] = parse_expression();
    if (!at_mark(":")) break;
    if (++part > 2) unexpected("']'");
    slices = true;
    take();
  }
  if (at_mark(",")) throw template_failure("several indices in one subscript are not supported");
  expect_mark("]");
  if (slices) {
    made->kind = expression_kind::slice;
    made->items = to_.memory.copy(std::span<const expression* const>(parts));
  } else if (parts[0] == nullptr) {
    throw template_failure("a subscript is empty");
  }
  made->b = parts[0];
  return made;
}

const expression* parser::parse_call(const expression* of) {
  auto* made = node(expression_kind::call);
  made->a = of;
  parse_arguments(*made);
  return made;
}

void parser::parse_arguments(expression& call) {
  const nested guard(*this);
  expect_mark("(");
  std::vector<const expression*> items;
  std::vector<named_expression> named;
  for (bool first = true; !at_mark(")"); first = false) {
    if (!first) {
      expect_mark(",");
      if (at_mark(")")) break;
    }
    if (skip_mark("*")) {
      call.spread = parse_expression();
    } else if (skip_mark("**")) {
      call.spread_named = parse_expression();
    } else if (now().kind == token_kind::name && ahead().kind == token_kind::mark && ahead().text == "=") {
      const std::string_view name = take().text;
      take();
      named.push_back({name, parse_expression()});
    } else {
      if (!named.empty() || call.spread != nullptr) unexpected("a named argument");
      items.push_back(parse_expression());
    }
  }
  expect_mark(")");
  call.items = to_.memory.copy(items);
  call.named = to_.memory.copy(named);
}

const expression* parser::parse_filters(const expression* from) {
  for (;;) {
    if (at_mark("|")) {
      take();
      from = parse_filter(from);
    } else if (at_name("is")) {
      from = parse_test(from);
    } else if (at_mark("(")) {
      from = parse_call(from);
    } else {
      return from;
    }
  }
}

const expression* parser::parse_filter(const expression* from) {
  auto* made = node(expression_kind::filter);
  made->a = from;
  made->name = expect_name();
  meter_.charge(cost::call);
  made->filter = find_filter(made->name);
  if (at_mark("(")) parse_arguments(*made);
  return made;
}

const expression* parser::parse_test(const expression* from) {
  auto* made = node(expression_kind::test);
  take();
  auto* inverted = at_name("not") ? node(expression_kind::negation) : nullptr;
  if (inverted != nullptr) take();
  made->a = from;
  made->name = expect_name();
  meter_.charge(cost::call);
  made->test = find_test(made->name);
  const token_kind next = now().kind;
  if (at_mark("(")) {
    parse_arguments(*made);
  } else if (next == token_kind::string || next == token_kind::integer || next == token_kind::real ||
             at_mark("[") || at_mark("{") ||
             (next == token_kind::name && !at_name("else") && !at_name("or") && !at_name("and"))) {
    if (at_name("is")) throw template_failure("tests cannot be chained with is");
    const std::vector<const expression*> argument{parse_postfix(parse_primary())};
    made->items = to_.memory.copy(argument);
  }
  if (inverted == nullptr) return made;
  inverted->a = made;
  return inverted;
}

}  // namespace orcd::engine::jinja
