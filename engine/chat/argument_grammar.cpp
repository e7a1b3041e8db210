#include "engine/chat/argument_grammar.hpp"

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
expr any_key() {
  grammar::byte_set first, more;
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    first[static_cast<std::size_t>(c)] = letter;
    more[static_cast<std::size_t>(c)] = letter || (c >= '0' && c <= '9');
  }
  return sequence({grammar::one_of(first), repeat(grammar::one_of(more), 0, 63)});
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
    const json::value* properties = schema->if_contains("properties");
    const auto names = grammar::names_of(schema->if_contains("required"), "#/required");
    std::vector<expr> out;
    std::vector<bool> required;
    if (properties != nullptr) {
      if (!properties->is_object()) fail("#/properties", "must be an object");
      if (strict_) compiler_.check_strict(*schema, properties->get_object(), "#");
      for (const auto& [name, property] : properties->get_object()) {
        const std::string at = deeper("#/properties", view(name));
        out.push_back(member(literal(key(view(name), at)), value(property, at)));
        required.push_back(names.contains(view(name)));
      }
    }
    for (const std::string_view name : names) {
      if (properties != nullptr && properties->get_object().contains(name)) continue;
      out.push_back(member(literal(key(name, "#/required")), value(any_, "#/required")));
      required.push_back(true);
    }
    const bool more = takes_more(*schema, out.empty());
    return listed(std::move(out), std::move(required), more);
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

  [[nodiscard]] bool takes_more(const json::object& schema, bool none_named) const {
    const json::value* more = schema.if_contains("additionalProperties");
    if (more == nullptr) return none_named;
    if (more->is_bool()) return more->get_bool();
    if (!is_open(*more)) fail("#/additionalProperties", beyond);
    return true;
  }

  /// A name that readers take as a key.
  [[nodiscard]] std::string key(std::string_view name, const std::string& at) const {
    const bool plain = name.find_first_of("<>=,() \n\t\r\"'") == std::string_view::npos;
    const bool begins = !python_ || (!name.empty() && (name[0] < '0' || name[0] > '9'));
    if (name.empty() || name.size() > 128 || !plain || !begins) fail(at, beyond);
    return std::string(name);
  }

  [[nodiscard]] expr value(const json::value& schema, const std::string& at) {
    if (python_) return is_open(schema) ? parts_.shared.any_value() : compiler_.part(schema, at);
    if (is_open(schema)) return values_.free();
    return kinds_of(schema, root_) == text_kind ? values_.of(schema, at) : compiler_.part(schema, at);
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

  [[nodiscard]] expr listed(std::vector<expr> members, std::vector<bool> required, bool more) {
    if (more) {
      members.push_back(member(any_key(), value(any_, "#")));
      required.push_back(false);
    }
    if (members.empty()) return literal("");
    return grammar::list(std::move(members), std::move(required), literal(python_ ? ", " : ""), more);
  }
  [[nodiscard]] expr further() { return listed({}, {}, true); }

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
