#include "engine/chat/argument_grammar.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/chat/argument_types.hpp"
#include "engine/grammar/regex.hpp"
#include "engine/grammar/schema/formats.hpp"
#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine {

namespace {

namespace json = boost::json;
using grammar::choice;
using grammar::deeper;
using grammar::expr;
using grammar::fail;
using grammar::literal;
using grammar::repeat;
using grammar::sequence;
using grammar::unbounded;
using grammar::view;

constexpr const char* beyond = "cannot be enforced in the form in which this model writes arguments";
constexpr std::uint32_t references_max = 8;
constexpr std::uint32_t characters_max = 1U << 16U;

expr any_text() {
  return repeat(grammar::code_points(0, 0x10FFFF), 0, unbounded);
}
bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// What the names of arguments are made of, so that readers find their end: of identifiers in Python, else of
/// any characters but these.
constexpr std::string_view no_key = "<>=,() \n\t\r\"'";
constexpr std::uint32_t key_characters_max = 128;
/// Of a name with others than ASCII's that must not be one of a list: each list has a rule of its own, and
/// such a character needs more than 20 states.
constexpr std::uint32_t listed_characters_max = 32;

/// Names of ASCII characters and, with up to `wide_most` characters, of any.
expr any_key(bool python, std::uint32_t wide_most) {
  grammar::byte_set first, more;
  for (int c = 0; c < 128; ++c) {
    const char byte = static_cast<char>(c);
    first[static_cast<std::size_t>(c)] =
        python ? is_letter(byte) : no_key.find(byte) == std::string_view::npos;
    more[static_cast<std::size_t>(c)] = first[static_cast<std::size_t>(c)] || (python && is_digit(byte));
  }
  const expr plain =
      sequence({grammar::one_of(first), repeat(grammar::one_of(more), 0, key_characters_max - 1)});
  if (python) return plain;
  const expr wide = choice({grammar::one_of(first), grammar::code_points(0x80, 0x10FFFF)});
  return choice({plain, repeat(wide, 1, wide_most)});
}

bool is_key(std::string_view name, bool python) {
  // Bytes that do not begin a character are 10xxxxxx.
  const auto characters = std::count_if(
      name.begin(), name.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  if (name.empty() || characters > key_characters_max) return false;
  if (!python) return name.find_first_of(no_key) == std::string_view::npos;
  return is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

/// The values of a text that a schema allows, where no value may hold `end`.
class text_values {
 public:
  text_values(const argument_parts& parts, const json::value& root)
      : rules_(parts.rules), shared_(parts.texts), root_(root), end_(parts.syntax.elements.value_close) {}

  [[nodiscard]] expr of(const json::value& schema, const std::string& where, std::uint32_t depth = 0) {
    if (depth > references_max) fail(where, beyond);
    const json::object* object = schema.if_object();
    if (object == nullptr) return free();
    if (const json::value* to = alone(*object, "$ref", where)) {
      if (!to->is_string()) fail(deeper(where, "$ref"), beyond);
      const auto text = view(to->get_string());
      return of(grammar::resolve_reference(root_, text, deeper(where, "$ref")), grammar::path_of(text),
                depth + 1);
    }
    if (const json::value* parts = alone(*object, "anyOf", where)) {
      if (!parts->is_array()) fail(deeper(where, "anyOf"), beyond);
      std::vector<expr> out;
      for (const json::value& part : parts->get_array()) {
        out.push_back(of(part, deeper(deeper(where, "anyOf"), std::to_string(out.size())), depth + 1));
      }
      return choice(std::move(out));
    }
    return bounded(*object, where);
  }

  [[nodiscard]] expr free() {
    if (!shared_.free) shared_.free = without_end({any_text()}, "#");
    return shared_.free;
  }

 private:
  /// The value of a keyword that stands beside nothing but types and annotations, or null if it is absent.
  [[nodiscard]] static const json::value* alone(const json::object& schema, std::string_view keyword,
                                                const std::string& where) {
    const json::value* out = schema.if_contains(keyword);
    if (out == nullptr) return nullptr;
    for (const auto& [name, value] : schema) {
      const auto word = view(name);
      if (word != keyword && word != "type" && word != "nullable" &&
          grammar::kind_of_keyword(word) != grammar::keyword_kind::annotation) {
        fail(deeper(where, word), beyond);
      }
    }
    return out;
  }

  [[nodiscard]] expr bounded(const json::object& schema, const std::string& where) {
    std::vector<expr> all, values;
    std::vector<std::pair<std::string_view, std::string>> patterns;
    std::uint32_t least = 0, most = unbounded;
    for (const auto& [name, value] : schema) {
      const auto word = view(name);
      const std::string at = deeper(where, word);
      if (word == "type" || word == "nullable") continue;
      if (word == "enum" || word == "const") {
        values.push_back(word == "const" ? one_of({value}, at) : one_of(list(value, at), at));
      } else if (word == "pattern") {
        patterns.emplace_back(text(value, at), at);
      } else if (word == "format") {
        const auto pattern = grammar::pattern_of_format(text(value, at));
        if (pattern.empty()) rules_.note_ignored("format=" + std::string(text(value, at)));
        if (!pattern.empty()) patterns.emplace_back(pattern, at);
      } else if (word == "minLength" || word == "maxLength") {
        (word == "minLength" ? least : most) = count(value, at);
      } else if (grammar::kind_of_keyword(word) != grammar::keyword_kind::annotation) {
        fail(at, beyond);
      }
    }
    if (least > 0 || most != unbounded) {
      if (least > most) grammar::contradict(deeper(where, "minLength"), "is above maxLength");
      all.push_back(repeat(grammar::code_points(0, 0x10FFFF), least, most));
    }
    const std::size_t asked = all.size() + values.size() + patterns.size();
    if (asked == 0) return free();
    if (asked == 1 && !values.empty()) return values.front();
    if (asked == 1 && !patterns.empty()) return matching(patterns.front().first, patterns.front().second);
    all.insert(all.end(), values.begin(), values.end());
    for (const auto& [pattern, at] : patterns) all.push_back(grammar::value_matching(pattern, at));
    return without_end(all, where);
  }

  [[nodiscard]] expr matching(std::string_view pattern, const std::string& at) {
    const auto known = shared_.patterns.find(pattern);
    if (known != shared_.patterns.end()) return known->second;
    const expr made = without_end({grammar::value_matching(pattern, at)}, at);
    return shared_.patterns.emplace(pattern, made).first->second;
  }

  [[nodiscard]] static json::array list(const json::value& value, const std::string& at) {
    if (!value.is_array() || value.get_array().empty()) fail(at, "must be a list of values");
    return value.get_array();
  }
  [[nodiscard]] static std::string_view text(const json::value& value, const std::string& at) {
    if (!value.is_string()) fail(at, "must be a string");
    return view(value.get_string());
  }
  [[nodiscard]] static std::uint32_t count(const json::value& value, const std::string& at) {
    const double number = value.is_number() ? value.to_number<double>() : -1;
    if (number < 0 || number > characters_max) {
      fail(at, "must be a number from 0 to " + std::to_string(characters_max));
    }
    return static_cast<std::uint32_t>(number);
  }
  /// Those of the values that do not hold `end_`.
  [[nodiscard]] expr one_of(const json::array& values, const std::string& at) const {
    std::vector<expr> out;
    for (const json::value& value : values) {
      if (value.is_string() && view(value.get_string()).find(end_) == std::string_view::npos)
        out.push_back(literal(view(value.get_string())));
    }
    if (out.empty()) fail(at, beyond);
    return choice(std::move(out));
  }

  [[nodiscard]] expr without_end(const std::vector<expr>& all, const std::string& where) {
    const grammar::rule_id rule = rules_.declare(where);
    rules_.define_common(rule, all, {sequence({any_text(), literal(end_), any_text()})});
    return grammar::call(rule);
  }

  grammar::program_builder& rules_;
  shared_texts& shared_;
  const json::value& root_;
  std::string_view end_;
};

class argument_writer {
 public:
  argument_writer(const argument_parts& parts, const callable& tool)
      : parts_(parts),
        elements_(parts.syntax.elements),
        python_(parts.syntax.what == call_syntax::body::python),
        strict_(tool.strict),
        root_(tool.parameters != nullptr ? *tool.parameters : any_),
        values_(parts, root_),
        compiler_(parts.rules, parts.shared, root_, tool.strict) {}

  [[nodiscard]] expr all() {
    const json::object* schema = root_.if_object();
    if (schema == nullptr) return further();
    check(*schema);
    const json::value* described = schema->if_contains("properties");
    if (described != nullptr && !described->is_object()) fail("#/properties", "must be an object");
    const json::object none;
    const json::object& properties = described != nullptr ? described->get_object() : none;
    if (strict_) compiler_.check_strict(*schema, properties, "#");
    const auto names = compiler_.required_names(*schema, properties, "#");
    check_count(properties, names);
    const named_arguments types = arguments_of(root_);
    std::vector<expr> out, keys;
    std::vector<bool> required;
    for (const auto& [name, property] : properties) {
      const std::string at = deeper("#/properties", view(name));
      keys.push_back(key(view(name), at));
      out.push_back(member(keys.back(), value(property, at, types.find(view(name))->second)));
      required.push_back(names.contains(view(name)));
    }
    for (const std::string_view name : names) {
      if (properties.contains(name)) continue;
      keys.push_back(key(name, "#/required"));
      out.push_back(member(keys.back(), value(any_, "#/required", {})));
      required.push_back(true);
    }
    const bool more = takes_more(*schema, out.empty());
    return listed(std::move(out), std::move(required), keys, more);
  }

 private:
  /// Refuses what the whole asks for besides its members.
  void check(const json::object& schema) {
    if ((kinds_of(root_, root_) & object_kind) == 0) fail("#/type", "must be an object");
    for (const auto& [name, value] : schema) {
      const auto word = view(name);
      if (word == "type" || word == "properties" || word == "required" || word == "additionalProperties")
        continue;
      if (grammar::kind_of_keyword(word) != grammar::keyword_kind::annotation)
        fail(deeper("#", word), beyond);
    }
  }

  static void check_count(const json::object& properties, const grammar::name_set& required) {
    const auto named = static_cast<std::size_t>(std::count_if(
        required.begin(), required.end(), [&](std::string_view name) { return !properties.contains(name); }));
    if (properties.size() + named <= arguments_max) return;
    fail("#", "an object has " + std::to_string(properties.size() + named) + " properties, the limit is " +
                  std::to_string(arguments_max));
  }

  [[nodiscard]] bool takes_more(const json::object& schema, bool none_named) const {
    const json::value* more = schema.if_contains("additionalProperties");
    if (more == nullptr) return none_named;
    if (more->is_bool()) return more->get_bool();
    if (!is_open(*more)) fail("#/additionalProperties", beyond);
    return true;
  }

  /// A name that readers take as a key.
  [[nodiscard]] expr key(std::string_view name, const std::string& at) const {
    if (!is_key(name, python_)) fail(at, beyond);
    return literal(name);
  }
  /// Any such name but the named ones, which have their own values and places.
  [[nodiscard]] expr further_key(const std::vector<expr>& named) {
    if (named.empty()) {
      if (!parts_.texts.key)
        parts_.texts.key = grammar::call(parts_.rules.add("#", any_key(python_, key_characters_max)));
      return parts_.texts.key;
    }
    const grammar::rule_id rule = parts_.rules.declare("#");
    parts_.rules.define_common(rule, {any_key(python_, listed_characters_max)}, named);
    return grammar::call(rule);
  }

  [[nodiscard]] expr value(const json::value& schema, const std::string& at, const argument_type& type) {
    if (python_) return type.open ? parts_.shared.any_value() : compiler_.part(schema, at);
    if (type.open) return values_.free();
    return type.is_text() ? values_.of(schema, at) : compiler_.part(schema, at);
  }

  [[nodiscard]] expr member(const expr& key, const expr& value) const {
    if (python_) return sequence({key, literal("="), value});
    const expr line = literal("\n"), may_break = grammar::optional(line);
    const expr edge = elements_.value_lines ? line : literal("");
    std::vector<expr> out{tag(elements_.key_open), key, tag(elements_.key_close)};
    if (!elements_.value_open.empty()) out.insert(out.end(), {may_break, tag(elements_.value_open)});
    out.insert(out.end(), {edge, value, edge, tag(elements_.value_close), may_break});
    return sequence(std::move(out));
  }

  /// A part of the syntax as its token or, where the vocabulary has none, as text.
  [[nodiscard]] expr tag(std::string_view text) const {
    return parts_.tokens.is_token(text) ? grammar::token(text) : literal(text);
  }

  [[nodiscard]] expr listed(std::vector<expr> members, std::vector<bool> required,
                            const std::vector<expr>& named, bool more) {
    if (more) {
      members.push_back(member(further_key(named), value(any_, "#", {})));
      required.push_back(false);
    }
    if (members.empty()) return literal("");
    return grammar::list(std::move(members), std::move(required), literal(python_ ? ", " : ""), more);
  }
  [[nodiscard]] expr further() { return listed({}, {}, {}, true); }

  inline static const json::value any_ = true;
  const argument_parts& parts_;
  const element_syntax& elements_;
  bool python_;
  bool strict_;
  const json::value& root_;
  text_values values_;
  grammar::schema_compiler compiler_;
};

}  // namespace

expr make_arguments(const argument_parts& parts, const callable& tool) {
  return argument_writer(parts, tool).all();
}

}  // namespace orcd::engine
