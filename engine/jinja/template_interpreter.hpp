// Executes a program with one set of variables and writes the prompt. One rendering, one thread.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "engine/jinja/template_context.hpp"
#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_syntax.hpp"
#include "engine/jinja/text_builder.hpp"

namespace orcd::engine::jinja {

/// A variable of a scope.
struct binding {
  std::uint32_t id;
  value item;
  binding* next;
};

/// A scope. Lives in the arena until the rendering ends, so that a macro can keep the scope in which it was
/// defined.
struct scope {
  scope* parent = nullptr;
  binding* first = nullptr;
};

struct macro_data {
  const macro_syntax* syntax;
  scope* defined_in;
};

class interpreter {
 public:
  interpreter(const program&, std::chrono::system_clock::time_point now, std::uint64_t most_work);

  /// Renders with `variables`, which are the caller's, and those of `more` whose names are not in it, which
  /// are the template's own. `callers` becomes the parts of the text that came from the caller. Throws
  /// template_failure.
  std::string run(const boost::json::object& variables, const boost::json::object& more,
                  std::vector<text_range>& callers);

  /// Units of work done so far.
  [[nodiscard]] std::uint64_t work() const noexcept { return c_.meter.spent(); }

 private:
  enum class flow : std::uint8_t { next, leave, resume };

  void set_globals(const boost::json::object& variables, const boost::json::object& more);
  value from_json(const boost::json::value& from, bool own);
  value object_from_json(const boost::json::object& from, bool own);
  value role_from_json(const boost::json::value& from);
  void charge_output(std::size_t bytes);
  void write(std::string_view text);

  // Scopes.
  [[nodiscard]] binding* find_binding(const scope& in, std::uint32_t id);
  [[nodiscard]] value look_up(const expression& variable);
  void bind(scope& in, std::uint32_t id, const value& item);
  void assign(const assign_target& target, const value& item);
  /// Runs `body` in a new scope inside the present one.
  flow run_in(scope* parent, block body);
  /// The text that `body` writes, as a value.
  value captured(scope* inside, block body);

  // Statements.
  flow run_block(block body);
  flow run_statement(const statement& s);
  flow run_branch(const statement& s);
  flow run_loop(const statement& s);
  flow run_scope(const statement& s);
  void run_capture(const statement& s);
  void run_call_block(const statement& s);

  // Expressions.
  value evaluate(const expression& e);
  value evaluate_operator(const expression& e);
  value evaluate_call(const expression& e, const macro_data* caller);
  value evaluate_filter(const expression& e, const value* piped);
  value evaluate_test(const expression& e);
  value evaluate_items(const expression& e);
  value evaluate_dict(const expression& e);
  value evaluate_concat(const expression& e);
  bool evaluate_comparison(const expression& e);
  call_values evaluate_arguments(const expression& e);
  value invoke(const value& callee, const call_values& values, const macro_data* caller);
  value call_macro(const macro_data& macro, const call_values& values, const macro_data* caller);
  void bind_parameters(scope& in, const macro_syntax& macro, const call_values& values);

  const program& program_;
  context c_;
  text_builder out_{c_};
  std::vector<value> globals_;  ///< by id: the caller's variables and the functions
  std::vector<value> roles_;    ///< the known roles, as the template's own text
  scope* scope_ = nullptr;
};

}  // namespace orcd::engine::jinja
