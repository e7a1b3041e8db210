// The part of the interpreter for variables and statements.
#include "engine/jinja/template_interpreter.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "engine/jinja/template_format.hpp"
#include "engine/jinja/template_loop.hpp"
#include "engine/jinja/template_operators.hpp"

namespace orcd::engine::jinja {

namespace json = boost::json;

namespace {

constexpr std::array<std::string_view, 5> known_roles = {"system", "developer", "user", "assistant", "tool"};

}  // namespace

interpreter::interpreter(const program& p, std::chrono::system_clock::time_point now, std::uint64_t most_work)
    : program_(p), c_(p.limits, now, most_work, &p.memory) {}

std::string interpreter::run(const json::object& variables, const json::object& more,
                             std::vector<text_range>& callers) {
  set_globals(variables, more);
  scope_ = c_.memory.make<scope>();
  run_block(program_.body);
  return out_.take(callers);
}

void interpreter::set_globals(const json::object& variables, const json::object& more) {
  c_.charge_values(program_.names.size());
  globals_.resize(program_.names.size());
  for (const std::string_view role : known_roles) roles_.push_back(c_.own_text(role));
  for (std::size_t id = 0; id < globals_.size(); ++id) {
    const std::string_view name = program_.names[id];
    c_.charge(cost::call + cost::scanned(2 * name.size()));  // hashed for either object
    const json::value* given = variables.if_contains({name.data(), name.size()});
    const bool own = given == nullptr;
    if (own) given = more.if_contains({name.data(), name.size()});
    if (given != nullptr) {
      globals_[id] = from_json(*given, own);
    } else if (const function_row* row = find_function(name)) {
      globals_[id].kind = value_kind::function;
      globals_[id].function = row;
    }
  }
}

/// The role of a message. Templates make special tokens of roles ("<|user|>"), so that the known ones, in
/// which nothing can be hidden, are taken for the template's own words.
value interpreter::role_from_json(const json::value& from) {
  if (from.is_string()) {
    const std::string_view text = from.get_string();
    const auto known = std::find(known_roles.begin(), known_roles.end(), text);
    if (known != known_roles.end()) return roles_[static_cast<std::size_t>(known - known_roles.begin())];
  }
  return from_json(from, false);
}

value interpreter::from_json(const json::value& from, bool own) {
  const context::deeper guard(c_);
  c_.charge(cost::node);
  switch (from.kind()) {
    case json::kind::null: return make_none();
    case json::kind::bool_: return make_bool(from.get_bool());
    case json::kind::int64: return make_integer(from.get_int64());
    case json::kind::uint64: return make_large(from.get_uint64());
    case json::kind::double_: return make_real(from.get_double());
    case json::kind::string: {
      const std::string_view text = from.get_string();
      return own ? c_.own_text(text) : make_string(text);
    }
    case json::kind::array: {
      std::vector<value> items;
      for (const json::value& item : from.get_array()) items.push_back(from_json(item, own));
      return c_.list(items);
    }
    case json::kind::object: break;
  }
  return object_from_json(from.get_object(), own);
}

value interpreter::object_from_json(const json::object& from, bool own) {
  const json::value* const sent = own ? nullptr : from.if_contains(sent_arguments);
  const bool spelled = sent != nullptr && sent->is_string();
  std::vector<dict_entry> entries;
  for (const auto& entry : from) {
    const std::string_view key = entry.key();
    if (spelled && key == sent_arguments) continue;
    const bool role = !own && key == "role";
    const value item = spelled && key == "arguments" ? read_sent(c_, sent->get_string())
                       : role                        ? role_from_json(entry.value())
                                                     : from_json(entry.value(), own);
    entries.push_back({make_string(key), item});
  }
  return c_.dict(entries);
}

void interpreter::charge_output(std::size_t bytes) {
  c_.charge(cost::value + cost::moved(bytes));
  if (bytes > c_.limits.output_bytes || out_.size() > c_.limits.output_bytes - bytes) {
    c_.fail("the chat template writes more than the limit of " + std::to_string(c_.limits.output_bytes) +
            " bytes");
  }
}

void interpreter::write(std::string_view text) {
  charge_output(text.size());
  out_.append(text);
}

binding* interpreter::find_binding(const scope& in, std::uint32_t id) {
  std::uint64_t passed = 1;  // a scope may have as many names as the source has room for
  binding* b = in.first;
  for (; b != nullptr && b->id != id; b = b->next) ++passed;
  c_.charge_values(passed);
  return b;
}

value interpreter::look_up(const expression& variable) {
  for (const scope* in = scope_; in != nullptr; in = in->parent) {
    if (const binding* b = find_binding(*in, variable.id)) return b->item;
  }
  const value& global = globals_[variable.id];
  return global.is(value_kind::undefined) ? make_undefined(variable.name) : global;
}

void interpreter::bind(scope& in, std::uint32_t id, const value& item) {
  if (binding* b = find_binding(in, id)) {
    b->item = item;
    return;
  }
  c_.charge(cost::value);
  in.first = c_.memory.make<binding>(id, item, in.first);
}

void interpreter::assign(const assign_target& target, const value& item) {
  if (!target.several.empty()) {
    const context::deeper guard(c_);
    require_defined(item);
    const auto items = iterate(c_, item);
    if (items.size() != target.several.size()) {
      c_.fail(std::to_string(items.size()) + " values cannot be assigned to " +
              std::to_string(target.several.size()) + " names");
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.several[i], items[i]);
  } else if (target.attribute.empty()) {
    bind(*scope_, target.id, item);
  } else {
    expression name;
    name.id = target.id;
    name.name = target.name;
    const value space = look_up(name);
    if (!space.is(value_kind::space)) {
      c_.fail("'" + std::string(target.name) + "' is no namespace, so its attributes cannot be assigned");
    }
    assign_attribute(c_, space, target.attribute, item);
  }
}

interpreter::flow interpreter::run_in(scope* parent, block body) {
  scope* const outer = scope_;
  scope_ = c_.memory.make<scope>(parent, nullptr);
  const flow result = run_block(body);
  scope_ = outer;  // not restored after a failure, which ends the rendering
  return result;
}

value interpreter::captured(scope* inside, block body) {
  const std::size_t begin = out_.size();
  scope* const outer = std::exchange(scope_, inside);
  run_block(body);
  scope_ = outer;
  const value text = out_.kept(begin);
  out_.resize(begin);
  return text;
}

interpreter::flow interpreter::run_block(block body) {
  for (const statement* s : body) {
    const flow result = run_statement(*s);
    if (result != flow::next) return result;
  }
  return flow::next;
}

interpreter::flow interpreter::run_statement(const statement& s) try {
  const context::deeper guard(c_);
  c_.charge(cost::node);
  switch (s.kind) {
    case statement_kind::text: write(s.text); break;
    case statement_kind::print: {
      const value v = evaluate(*s.a);
      write(text_of(c_, v));
      break;
    }
    case statement_kind::branch: return run_branch(s);
    case statement_kind::loop: return run_loop(s);
    case statement_kind::assign: assign(s.targets[0], evaluate(*s.a)); break;
    case statement_kind::capture: run_capture(s); break;
    case statement_kind::macro: {
      value v;
      v.kind = value_kind::macro;
      v.macro = c_.memory.make<macro_data>(s.macro, scope_);
      bind(*scope_, s.macro->id, v);
      break;
    }
    case statement_kind::call_block: run_call_block(s); break;
    case statement_kind::filter_block: {
      const value text = captured(c_.memory.make<scope>(scope_, nullptr), s.body);
      write(text_of(c_, evaluate_filter(*s.a, &text)));
      break;
    }
    case statement_kind::scope: return run_scope(s);
    case statement_kind::leave: return flow::leave;
    case statement_kind::resume: return flow::resume;
  }
  return flow::next;
} catch (template_failure& failure) {
  if (failure.line == 0) failure.line = s.line;
  throw;
}

interpreter::flow interpreter::run_branch(const statement& s) {
  for (const branch_arm& arm : s.arms) {
    if (arm.condition == nullptr || truth(evaluate(*arm.condition))) return run_block(arm.body);
  }
  return flow::next;
}

interpreter::flow interpreter::run_loop(const statement& s) {
  scope* const outer = scope_;
  std::span<const value> items = iterate(c_, evaluate(*s.a));
  if (s.condition != nullptr) {
    std::vector<value> kept;
    for (const value& item : items) {
      c_.charge(cost::node);
      scope_ = c_.memory.make<scope>(outer, nullptr);
      assign(s.targets[0], item);
      if (truth(evaluate(*s.condition))) kept.push_back(item);
    }
    scope_ = outer;
    items = c_.memory.copy(kept);
  }
  auto* state = c_.memory.make<loop_data>(items);
  value loop;
  loop.kind = value_kind::loop;
  loop.loop = state;
  for (; state->at < items.size(); ++state->at) {
    c_.charge(cost::node);
    scope_ = c_.memory.make<scope>(outer, nullptr);
    bind(*scope_, name_loop, loop);
    assign(s.targets[0], items[state->at]);
    if (run_block(s.body) == flow::leave) break;
  }
  scope_ = outer;
  return items.empty() ? run_in(outer, s.otherwise) : flow::next;
}

interpreter::flow interpreter::run_scope(const statement& s) {
  scope* const outer = scope_;
  auto* inner = c_.memory.make<scope>(outer, nullptr);
  for (std::size_t i = 0; i < s.values.size(); ++i) {
    const value item = evaluate(*s.values[i]);
    scope_ = inner;
    assign(s.targets[i], item);
    scope_ = outer;
  }
  return run_in(inner, s.body);
}

void interpreter::run_capture(const statement& s) {
  value text = captured(c_.memory.make<scope>(scope_, nullptr), s.body);
  if (s.a != nullptr) text = evaluate_filter(*s.a, &text);
  assign(s.targets[0], text);
}

void interpreter::run_call_block(const statement& s) {
  const macro_data caller{s.macro, scope_};
  write(text_of(c_, evaluate_call(*s.a, c_.memory.make<macro_data>(caller))));
}

}  // namespace orcd::engine::jinja
