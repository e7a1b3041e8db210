// The part of the interpreter for expressions.
#include <algorithm>
#include <array>

#include "engine/jinja/template_arithmetic.hpp"
#include "engine/jinja/template_format.hpp"
#include "engine/jinja/template_interpreter.hpp"
#include "engine/jinja/template_operators.hpp"

namespace orcd::engine::jinja {

value interpreter::evaluate(const expression& e) {
  const context::deeper guard(c_);
  c_.charge(cost::node);
  switch (e.kind) {
    case expression_kind::constant: return e.constant;
    case expression_kind::variable: return look_up(e);
    case expression_kind::attribute: return get_attribute(c_, evaluate(*e.a), e.name);
    case expression_kind::item: {
      const value object = evaluate(*e.a);
      return get_item(c_, object, evaluate(*e.b));
    }
    case expression_kind::call: return evaluate_call(e, nullptr);
    case expression_kind::filter: return evaluate_filter(e, nullptr);
    case expression_kind::test: return evaluate_test(e);
    case expression_kind::list:
    case expression_kind::tuple: return evaluate_items(e);
    case expression_kind::dict: return evaluate_dict(e);
    case expression_kind::concat: return evaluate_concat(e);
    default: return evaluate_operator(e);
  }
}

value interpreter::evaluate_operator(const expression& e) {
  switch (e.kind) {
    case expression_kind::slice: {
      const value object = evaluate(*e.a);
      std::array<value, 3> parts{make_none(), make_none(), make_none()};
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (e.items[i] != nullptr) parts[i] = evaluate(*e.items[i]);
      }
      return slice(c_, object, parts[0], parts[1], parts[2]);
    }
    case expression_kind::negate: return negative(evaluate(*e.a));
    case expression_kind::plus: {
      const value v = evaluate(*e.a);
      if (!is_number(v)) return arithmetic(c_, operation::add, make_integer(0), v);
      return v.is(value_kind::real) ? v : make_integer(v.integer);
    }
    case expression_kind::negation: return make_bool(!truth(evaluate(*e.a)));
    case expression_kind::both: {
      const value left = evaluate(*e.a);
      return truth(left) ? evaluate(*e.b) : left;
    }
    case expression_kind::either: {
      const value left = evaluate(*e.a);
      return truth(left) ? left : evaluate(*e.b);
    }
    case expression_kind::choice:
      if (truth(evaluate(*e.a))) return evaluate(*e.b);
      return e.c != nullptr ? evaluate(*e.c) : make_undefined("the else of a conditional");
    case expression_kind::compare: return make_bool(evaluate_comparison(e));
    default: break;
  }
  const value a = evaluate(*e.a);
  const value b = evaluate(*e.b);
  return e.op >= operation::equal ? make_bool(compare(c_, e.op, a, b)) : arithmetic(c_, e.op, a, b);
}

bool interpreter::evaluate_comparison(const expression& e) {
  value left = evaluate(*e.a);
  for (std::size_t i = 0; i < e.items.size(); ++i) {
    const value right = evaluate(*e.items[i]);
    if (!compare(c_, e.comparisons[i], left, right)) return false;
    left = right;
  }
  return true;
}

value interpreter::evaluate_items(const expression& e) {
  auto* to = static_cast<value*>(c_.memory.allocate(e.items.size() * sizeof(value)));
  for (std::size_t i = 0; i < e.items.size(); ++i) new (to + i) value(evaluate(*e.items[i]));
  const list_form form = e.kind == expression_kind::tuple ? list_form::tuple : list_form::list;
  const std::span<const value> items(to, e.items.size());
  return make_value(c_.memory.make<list_data>(items, form, form == list_form::list));
}

value interpreter::evaluate_dict(const expression& e) {
  std::vector<dict_entry> entries;
  for (std::size_t i = 0; i + 1 < e.items.size(); i += 2) {
    const value key = evaluate(*e.items[i]);
    put(c_, entries, key, evaluate(*e.items[i + 1]));
  }
  return c_.dict(entries);
}

value interpreter::evaluate_concat(const expression& e) {
  text_builder out(c_);
  for (const expression* part : e.items) append_text(c_, out, evaluate(*part));
  return out.kept();
}

value interpreter::evaluate_filter(const expression& e, const value* piped) {
  if (e.filter == nullptr) c_.fail("no filter named '" + std::string(e.name.substr(0, 40)) + "'");
  // In a filter block the innermost of the chained filters takes what the block wrote.
  const value self = e.a == nullptr                                             ? *piped
                     : piped != nullptr && e.a->kind == expression_kind::filter ? evaluate_filter(*e.a, piped)
                                                                                : evaluate(*e.a);
  return call_row(c_, *e.filter, self, evaluate_arguments(e));
}

value interpreter::evaluate_test(const expression& e) {
  if (e.test == nullptr) c_.fail("no test named '" + std::string(e.name.substr(0, 40)) + "'");
  const value self = evaluate(*e.a);
  return call_row(c_, *e.test, self, evaluate_arguments(e));
}

call_values interpreter::evaluate_arguments(const expression& e) {
  if (e.items.empty() && e.named.empty() && e.spread == nullptr && e.spread_named == nullptr) return {};
  c_.charge(cost::allocation + cost::value * (e.items.size() + 2 * e.named.size()));
  std::vector<value> items;
  std::vector<named_value> named;
  items.reserve(e.items.size());
  for (const expression* item : e.items) items.push_back(evaluate(*item));
  for (const named_expression& n : e.named) named.push_back({n.name, evaluate(*n.item)});
  if (e.spread != nullptr) {
    const auto more = iterate(c_, evaluate(*e.spread));
    c_.charge_values(more.size());
    items.insert(items.end(), more.begin(), more.end());
  }
  if (e.spread_named != nullptr) {
    const value more = evaluate(*e.spread_named);
    if (!more.is(value_kind::dict)) c_.fail("'**' takes a mapping, not " + std::string(kind_name(more)));
    c_.charge_values(3 * more.dict->entries.size());
    for (const dict_entry& entry : more.dict->entries) named.push_back({text_of(c_, entry.key), entry.item});
  }
  return {c_.memory.copy(items), c_.memory.copy(named)};
}

value interpreter::evaluate_call(const expression& e, const macro_data* caller) {
  if (e.a->kind != expression_kind::attribute) {
    const value callee = evaluate(*e.a);
    return invoke(callee, evaluate_arguments(e), caller);
  }
  const value object = evaluate(*e.a->a);
  c_.charge(cost::call);
  if (const method_row* row = find_method(object.kind, e.a->name)) {
    return call_row(c_, *row, object, evaluate_arguments(e));
  }
  const value callee = get_attribute(c_, object, e.a->name);
  return invoke(callee, evaluate_arguments(e), caller);
}

value interpreter::invoke(const value& callee, const call_values& values, const macro_data* caller) {
  switch (callee.kind) {
    case value_kind::macro: return call_macro(*callee.macro, values, caller);
    case value_kind::method: return call_row(c_, *callee.method->row, callee.method->self, values);
    case value_kind::function: return call_row(c_, *callee.function, {}, values);
    default: require_defined(callee); c_.fail(std::string(kind_name(callee)) + " cannot be called");
  }
}

value interpreter::call_macro(const macro_data& macro, const call_values& values, const macro_data* caller) {
  const context::deeper guard(c_);
  c_.charge(cost::call + cost::value * values.named.size());
  auto* inside = c_.memory.make<scope>(macro.defined_in, nullptr);
  scope* const outer = std::exchange(scope_, inside);  // defaults see the parameters before them
  bind_parameters(*inside, *macro.syntax, values);
  scope_ = outer;
  if (caller != nullptr) {
    value v;
    v.kind = value_kind::macro;
    v.macro = caller;
    bind(*inside, name_caller, v);
  }
  return captured(inside, macro.syntax->body);
}

void interpreter::bind_parameters(scope& in, const macro_syntax& macro, const call_values& values) {
  const std::string name(macro.name.substr(0, 40));
  std::vector<dict_entry> extra;
  std::vector<bool> used(values.named.size());
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const macro_parameter& p = macro.parameters[i];
    c_.charge(cost::keys(values.named.size(), p.name.size()));
    const auto found = std::find_if(values.named.begin(), values.named.end(),
                                    [&](const named_value& named) { return named.name == p.name; });
    if (found != values.named.end()) {
      if (i < values.items.size()) c_.fail("macro '" + name + "' got '" + std::string(p.name) + "' twice");
      used[static_cast<std::size_t>(found - values.named.begin())] = true;
      bind(in, p.id, found->item);
    } else if (i < values.items.size()) {
      bind(in, p.id, values.items[i]);
    } else {
      bind(in, p.id, p.fallback != nullptr ? evaluate(*p.fallback) : make_undefined(p.name));
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    if (!macro.takes_kwargs) {
      c_.fail("macro '" + name + "' does not take the argument '" + std::string(values.named[i].name) + "'");
    }
    put(c_, extra, make_string(values.named[i].name), values.named[i].item);
  }
  if (macro.takes_kwargs) bind(in, name_kwargs, c_.dict(extra));
  const std::size_t positional = std::min(values.items.size(), macro.parameters.size());
  if (positional < values.items.size() && !macro.takes_varargs) {
    c_.fail("macro '" + name + "' takes at most " + std::to_string(positional) + " arguments, not " +
            std::to_string(values.items.size()));
  }
  if (macro.takes_varargs)
    bind(in, name_varargs, c_.list(values.items.subspan(positional), list_form::tuple));
}

}  // namespace orcd::engine::jinja
