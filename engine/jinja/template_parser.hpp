// Turns tokens into a program. One class; its expressions and statements are in a file each. Source: Jinja
// 3.1 documentation (precedence of operators, arguments of tests, assignments).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/jinja/template_lexer.hpp"
#include "engine/jinja/template_syntax.hpp"

namespace orcd::engine::jinja {

/// `source` is valid UTF-8. Throws template_failure with the line.
[[nodiscard]] std::shared_ptr<const program> parse(std::string_view source, const template_limits& limits,
                                                   work_meter& meter);

class parser {
 public:
  parser(program& to, work_meter& meter) : to_(to), meter_(meter) {}
  void run(std::string_view source);

 private:
  /// Counts nested brackets and blocks.
  class nested {
   public:
    explicit nested(parser& p);
    ~nested() { --parser_.nesting_; }
    nested(const nested&) = delete;
    nested& operator=(const nested&) = delete;

   private:
    parser& parser_;
  };

  // Tokens.
  [[nodiscard]] const token& now() const { return tokens_[at_]; }
  [[nodiscard]] const token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  token take();
  [[nodiscard]] bool at_mark(std::string_view mark) const;
  [[nodiscard]] bool at_name(std::string_view name) const;
  bool skip_mark(std::string_view mark);
  bool skip_name(std::string_view name);
  void expect_mark(std::string_view mark);
  std::string_view expect_name();
  void expect_end();
  [[noreturn]] void unexpected(std::string_view wanted) const;
  std::uint32_t id_of(std::string_view name);

  // Expressions.
  const expression* parse_expression();  ///< including `a if b else c`
  const expression* parse_list();        ///< with commas it is a tuple
  const expression* parse_or();
  const expression* parse_and();
  const expression* parse_not();
  const expression* parse_compare();
  const expression* parse_sum();
  const expression* parse_concat();
  const expression* parse_product();
  const expression* parse_power();
  const expression* parse_unary(bool with_filters);
  const expression* parse_primary();
  const expression* parse_postfix(const expression* node);
  const expression* parse_filters(const expression* node);
  const expression* parse_filter(const expression* node);
  const expression* parse_test(const expression* node);
  const expression* parse_parentheses();
  const expression* parse_brackets();
  const expression* parse_braces();
  const expression* parse_subscript(const expression* of);
  const expression* parse_call(const expression* of);
  void parse_arguments(expression& call);
  bool comparison(operation& op);
  expression* node(expression_kind kind);
  const expression* binary(operation op, const expression* a, const expression* b);
  const expression* parsed_tuple(std::vector<const expression*> items);

  // Statements.
  block parse_block(std::initializer_list<std::string_view> ends);
  const statement* parse_statement();
  const statement* parse_if();
  const statement* parse_for();
  const statement* parse_set();
  const statement* parse_macro();
  const statement* parse_call();
  const statement* parse_filter_block();
  const statement* parse_with();
  const statement* parse_generation();
  const statement* parse_loop_exit();
  void parse_signature(macro_syntax& macro);
  void parse_macro_body(macro_syntax& macro, std::string_view end);
  void parse_end(std::string_view word);
  assign_target parse_target(bool with_attribute);
  assign_target parse_targets(bool with_attribute);
  statement* make(statement_kind kind);

  program& to_;
  work_meter& meter_;
  std::vector<token> tokens_;
  std::size_t at_ = 0;
  std::uint32_t nesting_ = 0;
  std::uint32_t loops_ = 0;  ///< loops around this statement, within the same macro
  bool saw_varargs_ = false;
  bool saw_kwargs_ = false;
  bool saw_caller_ = false;
};

}  // namespace orcd::engine::jinja
