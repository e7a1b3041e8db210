#include "net/completion/grammar_source.hpp"

#include <array>
#include <bit>
#include <boost/json/object.hpp>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/sha256.hpp"
#include "engine/grammar/grammar.hpp"
#include "net/json/field_checks.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// The functions that may be called; they point into `constraints`. `all`: with the parameters of those that
/// need not be strict, too.
std::vector<engine::callable> callables_of(const output_constraints& constraints, bool all) {
  std::vector<engine::callable> out;
  for (const json::value& tool : constraints.tools) {
    const json::object& function = tool.at("function").as_object();
    engine::callable one;
    one.name = std::string(function.at("name").as_string());
    if (!constraints.function.empty() && one.name != constraints.function) continue;
    const auto* parameters = function.if_contains("parameters");
    const auto* strict = function.if_contains("strict");
    one.strict = strict != nullptr && *strict == json::value(true);
    // With tool_choice auto only strict functions are enforced; the parameters of the others are left to the
    // model.
    const bool binds = one.strict || all || constraints.kind != constraint_kind::open;
    if (binds && parameters != nullptr && !parameters->is_null()) one.parameters = parameters;
    out.push_back(std::move(one));
  }
  return out;
}

/// A digest of values. Each value is fed with its kind and its size, so that different sequences of values
/// never give the same bytes.
class digest {
 public:
  /// As few bytes as the number needs, seven bits each, the last one marked: most numbers and sizes are
  /// small.
  void number(std::uint64_t number) {
    std::array<char, 10> out;
    std::size_t size = 0;
    for (; number >= 128; number >>= 7U) out[size++] = static_cast<char>(number & 127U);
    out[size++] = static_cast<char>(number | 128U);
    bytes(out.data(), size);
  }
  void text(std::string_view text) {
    number(text.size());
    bytes(text.data(), text.size());
  }
  void value(const json::value& value) {
    const auto kind = static_cast<char>(value.kind());
    bytes(&kind, 1);
    switch (value.kind()) {
      case json::kind::null: break;
      case json::kind::bool_: number(value.get_bool() ? 1 : 0); break;
      case json::kind::int64: number(static_cast<std::uint64_t>(value.get_int64())); break;
      case json::kind::uint64: number(value.get_uint64()); break;
      case json::kind::double_: number(std::bit_cast<std::uint64_t>(value.get_double())); break;
      case json::kind::string: text({value.get_string().data(), value.get_string().size()}); break;
      case json::kind::array:
        number(value.get_array().size());
        for (const json::value& item : value.get_array()) this->value(item);
        break;
      case json::kind::object:
        number(value.get_object().size());
        for (const auto& member : value.get_object()) {
          text({member.key().data(), member.key().size()});
          this->value(member.value());
        }
        break;
    }
  }
  [[nodiscard]] std::string finish() {
    flush();
    return hash_.finish();
  }

 private:
  void bytes(const void* from, std::size_t size) {
    if (size > buffer_.size() - filled_) flush();
    if (size > buffer_.size()) {
      hash_.update(std::string_view(static_cast<const char*>(from), size));
      return;
    }
    std::memcpy(buffer_.data() + filled_, from, size);
    filled_ += size;
  }
  void flush() {
    hash_.update(std::string_view(buffer_.data(), filled_));
    filled_ = 0;
  }

  engine::sha256 hash_;
  std::array<char, 4'096> buffer_;
  std::size_t filled_ = 0;
};

bool is_generic(const grammar_source& source) noexcept {
  return source.frame.format.calls == engine::call_format::generic;
}

/// A model that was never taught to call is kept to its functions' parameters. Those that cannot be enforced,
/// of functions that need not be strict, are left to the model, as in formats of its own.
result<grammar_program> compile_generic(const grammar_source& source) {
  const auto& constraints = source.constraints;
  const auto compile = [&](bool all) {
    const auto callables = callables_of(constraints, all);
    return engine::make_generic_grammar(source.frame, {callables, constraints.parallel}, *source.tokens);
  };
  auto made = compile(true);
  return made ? made : compile(false);
}

/// Such a text is the whole output: a format that frames its answers, or a prompt that ends within a
/// reasoning, leaves no place for it.
result<grammar_program> compile_text(const grammar_source& source) {
  const auto& constraints = source.constraints;
  if (source.frame.in_reasoning || source.frame.format.calls == engine::call_format::harmony) {
    return refuse_field(constraints.field, "cannot be enforced where the model begins with reasoning");
  }
  switch (constraints.text_kind) {
    case guided_kind::choice: return engine::grammar::compile_choice(constraints.texts, constraints.field);
    case guided_kind::grammar:
      return engine::grammar::compile_grammar(constraints.texts.front(), constraints.field);
    default: return engine::grammar::compile_regex(constraints.texts.front(), constraints.field);
  }
}

}  // namespace

result<grammar_program> compile_grammar(const grammar_source& source) {
  const auto& constraints = source.constraints;
  if (constraints.kind == constraint_kind::text) return compile_text(source);
  if (constraints.kind == constraint_kind::open && is_generic(source)) return compile_generic(source);
  const auto callables = callables_of(constraints, false);
  const engine::offered_calls offered{callables, constraints.parallel};
  if (constraints.kind == constraint_kind::calls) {
    return engine::make_call_grammar(source.frame, offered, *source.tokens);
  }
  if (constraints.kind == constraint_kind::open)
    return engine::make_open_grammar(source.frame, callables, *source.tokens);
  engine::grammar::schema_options options;
  options.strict = constraints.strict;
  options.param = constraints.field;
  return engine::make_response_grammar(source.frame,
                                       constraints.schema.is_null() ? nullptr : &constraints.schema, options,
                                       *source.tokens, offered);
}

std::string ignored_header(const engine::grammar::program& grammar) {
  std::string out;
  for (const std::string& annotation : engine::grammar::ignored_annotations(grammar)) {
    if (!out.empty()) out += ", ";
    out += annotation;
  }
  return out;
}

std::string key_of(const grammar_source& source) {
  const auto& constraints = source.constraints;
  const auto& frame = source.frame;
  digest key;
  key.number(static_cast<std::uint64_t>(frame.format.calls));
  key.number(static_cast<std::uint64_t>(frame.format.reasoning));
  key.number(static_cast<std::uint64_t>(frame.format.answer));
  for (const bool flag :
       {frame.format.think, frame.in_reasoning, frame.may_reason, frame.in_answer, constraints.parallel,
        constraints.kind == constraint_kind::json && constraints.strict}) {
    key.number(flag ? 1 : 0);
  }
  key.number(static_cast<std::uint64_t>(constraints.kind));
  if (constraints.kind == constraint_kind::json) {
    key.value(constraints.schema);
    key.text(constraints.field);  // a refusal that is kept names it
  }
  if (constraints.kind == constraint_kind::text) {
    key.text(constraints.field);
    key.number(static_cast<std::uint64_t>(constraints.text_kind));
    key.number(constraints.texts.size());
    for (const std::string& text : constraints.texts) key.text(text);
  }
  for (const auto& tool : callables_of(constraints, is_generic(source))) {
    key.number(tool.strict ? 1 : 0);
    key.text(tool.name);
    key.number(tool.parameters != nullptr ? 1 : 0);
    if (tool.parameters != nullptr) key.value(*tool.parameters);
  }
  return key.finish();
}

}  // namespace orcd::net
