// The part of the parser for tokens and statements.
#include "engine/jinja/template_parser.hpp"

#include <algorithm>
#include <string>

#include "engine/jinja/template_library.hpp"

namespace orcd::engine::jinja {

parser::nested::nested(parser& p) : parser_(p) {
  if (p.nesting_ >= p.to_.limits.nesting) {
    throw template_failure("brackets or blocks are nested deeper than the limit of " +
                           std::to_string(p.to_.limits.nesting));
  }
  ++p.nesting_;
}

token parser::take() {
  const token taken = tokens_[at_];
  if (taken.kind != token_kind::end) ++at_;
  return taken;
}

bool parser::at_mark(std::string_view mark) const {
  return now().kind == token_kind::mark && now().text == mark;
}
bool parser::at_name(std::string_view name) const {
  return now().kind == token_kind::name && now().text == name;
}
bool parser::skip_mark(std::string_view mark) {
  const bool there = at_mark(mark);
  if (there) take();
  return there;
}
bool parser::skip_name(std::string_view name) {
  const bool there = at_name(name);
  if (there) take();
  return there;
}

void parser::expect_mark(std::string_view mark) {
  if (!skip_mark(mark)) unexpected("'" + std::string(mark) + "'");
}

std::string_view parser::expect_name() {
  if (now().kind != token_kind::name) unexpected("a name");
  return take().text;
}

void parser::expect_end() {
  if (now().kind != token_kind::block_end) unexpected("the end of the tag");
  take();
}

void parser::unexpected(std::string_view wanted) const {
  const token& found = now();
  std::string what;
  switch (found.kind) {
    case token_kind::text:
    case token_kind::block_begin:
    case token_kind::print_begin: what = "a new tag"; break;
    case token_kind::block_end:
    case token_kind::print_end: what = "the end of the tag"; break;
    case token_kind::end: what = "the end of the template"; break;
    default: what = "'" + std::string(found.text.substr(0, 40)) + "'"; break;
  }
  throw template_failure("expected " + std::string(wanted) + ", found " + what);
}

std::uint32_t parser::id_of(std::string_view name) {
  meter_.charge(cost::looked_up + cost::scanned(name.size()));
  const auto [found, is_new] = to_.ids.try_emplace(name, static_cast<std::uint32_t>(to_.names.size()));
  if (is_new) to_.names.push_back(name);
  const std::uint32_t id = found->second;
  saw_caller_ = saw_caller_ || id == name_caller;
  saw_varargs_ = saw_varargs_ || id == name_varargs;
  saw_kwargs_ = saw_kwargs_ || id == name_kwargs;
  return id;
}

statement* parser::make(statement_kind kind) {
  meter_.charge(cost::built);
  auto* made = to_.memory.make<statement>();
  made->kind = kind;
  made->line = now().line;
  return made;
}

void parser::run(std::string_view source) {
  for (const std::string_view reserved : {"loop", "caller", "varargs", "kwargs"}) id_of(reserved);
  saw_caller_ = saw_varargs_ = saw_kwargs_ = false;
  tokens_ = tokenize(source, to_.memory, meter_);
  try {
    to_.body = parse_block({});
    if (now().kind != token_kind::end) unexpected("the end of the template");
  } catch (template_failure& failure) {
    if (failure.line == 0) failure.line = now().line;
    throw;
  }
}

/// Parses up to a tag that begins with one of `ends`, which is the next token then; with an empty list, to
/// the end.
block parser::parse_block(std::initializer_list<std::string_view> ends) {
  const nested guard(*this);
  std::vector<const statement*> out;
  for (;;) {
    if (now().kind == token_kind::end) {
      if (ends.size() == 0) break;
      unexpected("'" + std::string(*ends.begin()) + "'");
    }
    if (now().kind == token_kind::text) {
      auto* text = make(statement_kind::text);
      text->text = take().text;
      out.push_back(text);
    } else if (now().kind == token_kind::print_begin) {
      take();
      auto* print = make(statement_kind::print);
      print->a = parse_list();
      if (now().kind != token_kind::print_end) unexpected("'}}'");
      take();
      out.push_back(print);
    } else {
      take();
      if (now().kind == token_kind::name && std::find(ends.begin(), ends.end(), now().text) != ends.end())
        break;
      out.push_back(parse_statement());
    }
  }
  return to_.memory.copy(out);
}

const statement* parser::parse_statement() {
  const std::string_view word = now().kind == token_kind::name ? now().text : std::string_view();
  if (word == "if") return parse_if();
  if (word == "for") return parse_for();
  if (word == "set") return parse_set();
  if (word == "macro") return parse_macro();
  if (word == "call") return parse_call();
  if (word == "filter") return parse_filter_block();
  if (word == "with") return parse_with();
  if (word == "generation") return parse_generation();
  if (word == "break" || word == "continue") return parse_loop_exit();
  if (word.empty()) unexpected("a statement");
  throw template_failure("unknown tag '" + std::string(word.substr(0, 40)) + "'");
}

void parser::parse_end(std::string_view word) {
  if (!skip_name(word)) unexpected("'" + std::string(word) + "'");
  expect_end();
}

const statement* parser::parse_if() {
  auto* made = make(statement_kind::branch);
  std::vector<branch_arm> arms;
  for (;;) {
    take();  // if or elif
    const expression* condition = parse_list();
    expect_end();
    arms.push_back({condition, parse_block({"elif", "else", "endif"})});
    if (at_name("elif")) continue;
    if (skip_name("else")) {
      expect_end();
      arms.push_back({nullptr, parse_block({"endif"})});
    }
    parse_end("endif");
    made->arms = to_.memory.copy(arms);
    return made;
  }
}

const statement* parser::parse_for() {
  auto* made = make(statement_kind::loop);
  take();
  const std::vector<assign_target> target{parse_targets(false)};
  made->targets = to_.memory.copy(target);
  if (!skip_name("in")) unexpected("'in'");
  const expression* first = parse_or();
  std::vector<const expression*> items{first};
  while (skip_mark(",")) {
    if (now().kind == token_kind::block_end) break;
    items.push_back(parse_or());
  }
  made->a = items.size() == 1 && tokens_[at_ - 1].text != "," ? first : parsed_tuple(std::move(items));
  if (skip_name("if")) made->condition = parse_expression();
  if (at_name("recursive")) throw template_failure("recursive loops are not supported");
  expect_end();
  ++loops_;
  made->body = parse_block({"else", "endfor"});
  --loops_;
  if (skip_name("else")) {
    expect_end();
    made->otherwise = parse_block({"endfor"});
  }
  parse_end("endfor");
  return made;
}

assign_target parser::parse_target(bool with_attribute) {
  const nested guard(*this);
  assign_target out;
  if (skip_mark("(")) {
    out = parse_targets(with_attribute);
    expect_mark(")");
    return out;
  }
  out.name = expect_name();
  if (out.name == "true" || out.name == "false" || out.name == "none") {
    throw template_failure("'" + std::string(out.name) + "' cannot be assigned to");
  }
  out.id = id_of(out.name);
  if (with_attribute && skip_mark(".")) out.attribute = expect_name();
  return out;
}

assign_target parser::parse_targets(bool with_attribute) {
  assign_target first = parse_target(with_attribute);
  if (!at_mark(",")) return first;
  std::vector<assign_target> several{first};
  while (skip_mark(",")) {
    if (now().kind != token_kind::name && !at_mark("(")) break;
    several.push_back(parse_target(with_attribute));
  }
  assign_target out;
  out.several = to_.memory.copy(several);
  return out;
}

const statement* parser::parse_set() {
  auto* made = make(statement_kind::assign);
  take();
  const std::vector<assign_target> target{parse_targets(true)};
  made->targets = to_.memory.copy(target);
  if (skip_mark("=")) {
    made->a = parse_list();
    expect_end();
    return made;
  }
  made->kind = statement_kind::capture;
  while (skip_mark("|")) made->a = parse_filter(made->a);
  expect_end();
  made->body = parse_block({"endset"});
  parse_end("endset");
  return made;
}

void parser::parse_signature(macro_syntax& macro) {
  std::vector<macro_parameter> parameters;
  expect_mark("(");
  while (!skip_mark(")")) {
    if (!parameters.empty()) expect_mark(",");
    if (skip_mark(")")) break;
    const std::string_view name = expect_name();
    macro_parameter parameter{id_of(name), name, nullptr};
    if (skip_mark("=")) {
      parameter.fallback = parse_expression();
    } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
      throw template_failure("parameter '" + std::string(name) + "' has no default and follows one that has");
    }
    parameters.push_back(parameter);
  }
  macro.parameters = to_.memory.copy(parameters);
}

void parser::parse_macro_body(macro_syntax& macro, std::string_view end) {
  const auto outer_loops = std::exchange(loops_, 0U);
  const bool outer[] = {std::exchange(saw_varargs_, false), std::exchange(saw_kwargs_, false),
                        std::exchange(saw_caller_, false)};
  macro.body = parse_block({end});
  macro.takes_varargs = std::exchange(saw_varargs_, outer[0]);
  macro.takes_kwargs = std::exchange(saw_kwargs_, outer[1]);
  macro.takes_caller = std::exchange(saw_caller_, outer[2]);
  loops_ = outer_loops;
  parse_end(end);
}

const statement* parser::parse_macro() {
  auto* made = make(statement_kind::macro);
  take();
  auto* macro = to_.memory.make<macro_syntax>();
  macro->name = expect_name();
  macro->id = id_of(macro->name);
  parse_signature(*macro);
  expect_end();
  parse_macro_body(*macro, "endmacro");
  made->macro = macro;
  return made;
}

const statement* parser::parse_call() {
  auto* made = make(statement_kind::call_block);
  take();
  auto* macro = to_.memory.make<macro_syntax>();
  macro->name = "caller";
  macro->id = name_caller;
  if (at_mark("(")) parse_signature(*macro);
  made->a = parse_expression();
  if (made->a->kind != expression_kind::call) unexpected("a call");
  expect_end();
  parse_macro_body(*macro, "endcall");
  made->macro = macro;
  return made;
}

const statement* parser::parse_filter_block() {
  auto* made = make(statement_kind::filter_block);
  take();
  made->a = parse_filter(nullptr);
  while (skip_mark("|")) made->a = parse_filter(made->a);
  expect_end();
  made->body = parse_block({"endfilter"});
  parse_end("endfilter");
  return made;
}

const statement* parser::parse_with() {
  auto* made = make(statement_kind::scope);
  take();
  std::vector<assign_target> targets;
  std::vector<const expression*> values;
  while (now().kind != token_kind::block_end) {
    if (!targets.empty()) expect_mark(",");
    targets.push_back(parse_target(false));
    expect_mark("=");
    values.push_back(parse_expression());
  }
  expect_end();
  made->targets = to_.memory.copy(targets);
  made->values = to_.memory.copy(values);
  made->body = parse_block({"endwith"});
  parse_end("endwith");
  return made;
}

/// The generation block marks what the model wrote, for training; its text is rendered like any other.
const statement* parser::parse_generation() {
  auto* made = make(statement_kind::scope);
  take();
  expect_end();
  made->body = parse_block({"endgeneration"});
  parse_end("endgeneration");
  return made;
}

const statement* parser::parse_loop_exit() {
  auto* made = make(at_name("break") ? statement_kind::leave : statement_kind::resume);
  const std::string word(take().text);
  if (loops_ == 0) throw template_failure("'" + word + "' outside of a loop");
  expect_end();
  return made;
}

std::shared_ptr<const program> parse(std::string_view source, const template_limits& limits,
                                     work_meter& meter) {
  auto made = std::make_shared<program>(limits);
  parser(*made, meter).run(source);
  return made;
}

}  // namespace orcd::engine::jinja
