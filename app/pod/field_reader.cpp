#include "app/pod/field_reader.hpp"

#include <algorithm>
#include <charconv>
#include <regex>
#include <utility>

namespace orcd::app {
namespace {

constexpr std::size_t shown_bytes = 40;
constexpr std::size_t list_items_max = 128;
constexpr std::size_t labels_max = 32;
constexpr const char* label_pattern = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?";
constexpr const char* subdomain_pattern = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
constexpr const char* label_rule =
    "up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";

/// What a plain word of YAML is taken for. Quoted ones are texts, whatever they look like.
bool is_text(const YAML::Node& node) {
  static const std::regex other(
      "~|null|Null|NULL|true|True|TRUE|false|False|FALSE|"
      "[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?|0x[0-9a-fA-F]+|0o[0-7]+|"
      "[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)");
  constexpr std::size_t longest_number = 64;
  if (!node.IsScalar()) return false;
  const auto& word = node.Scalar();
  return node.Tag() == "!" || word.size() > longest_number || !std::regex_match(word, other);
}

bool matches(const std::string& text, const char* pattern) {
  return std::regex_match(text, std::regex(pattern));
}

std::string problem_of_key(const std::string& key) {
  const auto slash = key.find('/');
  const auto prefix = slash == std::string::npos ? std::string() : key.substr(0, slash);
  const auto name = slash == std::string::npos ? key : key.substr(slash + 1);
  if (slash != std::string::npos &&
      (prefix.size() > subdomain_bytes_max || !matches(prefix, subdomain_pattern)))
    return "the part of the key before '/' must be a DNS name in lower case";
  if (name.size() > label_bytes_max || !matches(name, label_pattern))
    return std::string("the key must be ") + label_rule;
  return "";
}

}  // namespace

std::string shown_piece(std::string_view text) {
  std::string out(text.substr(0, shown_bytes));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

void field_reader::problem(const path& at, const std::string& text) {
  if (problems_.size() < problems_max) {
    problems_.push_back(at.empty() ? "the file " + text : at + ": " + text);
  }
}

void field_reader::read_map(const node& value, const path& at, const fields& known) {
  if (!value.IsMap()) return problem(at, "must be a map");
  std::vector<std::string_view> seen;
  for (const auto& entry : value) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const path inner = (at.empty() ? "" : at + ".") + shown_piece(key);
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const field& f) { return f.name == key; });
    if (found == known.end()) {
      problem(inner, "unknown field");
    } else if (std::find(seen.begin(), seen.end(), found->name) != seen.end()) {
      problem(inner, "is given twice");
    } else {
      seen.push_back(found->name);
      found->read(entry.second, inner);
    }
  }
}

void field_reader::need(const node& value, const path& at, std::initializer_list<const char*> names) {
  if (!value.IsMap()) return;
  for (const auto* const name : names) {
    if (!value[name]) problem(at + "." + name, "is missing");
  }
}

field_reader::action field_reader::nested(std::string_view name, action read) {
  return [this, name, read = std::move(read)](const node& v, const path& p) {
    read_map(v, p, {{name, read}});
  };
}

void field_reader::read_list(const node& value, const path& at, std::size_t items_max, const action& item) {
  if (!value.IsSequence()) return problem(at, "must be a list");
  if (value.size() > items_max) {
    return problem(at, "has more than " + std::to_string(items_max) + " items");
  }
  std::size_t index = 0;
  for (const auto& entry : value) item(entry, at + "[" + std::to_string(index++) + "]");
}

void field_reader::read_labels(const node& value, const path& at, text_pairs& out) {
  if (!value.IsMap()) return problem(at, "must be a map");
  if (value.size() > labels_max) return problem(at, "has more than " + std::to_string(labels_max) + " keys");
  for (const auto& entry : value) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const path inner = at + "." + shown_piece(key);
    if (const auto wrong = problem_of_key(key); !wrong.empty()) {
      problem(inner, wrong);
    } else if (std::any_of(out.begin(), out.end(), [&](const auto& one) { return one.first == key; })) {
      problem(inner, "is given twice");
    } else {
      read_label_value(entry.second, inner, out.emplace_back(key, "").second);
    }
  }
}

void field_reader::read_text(const node& value, const path& at, std::size_t bytes_max, std::string& out,
                             bool may_be_empty) {
  if (!is_text(value)) return problem(at, "must be a string; numbers and true or false need quotes");
  const auto& text = value.Scalar();
  if (text.empty() && !may_be_empty) return problem(at, "must not be empty");
  if (text.size() > bytes_max) return problem(at, "is longer than " + std::to_string(bytes_max) + " bytes");
  if (text.find('\0') != std::string::npos) return problem(at, "must not have a zero byte");
  out = text;
}

void field_reader::read_texts(const node& value, const path& at, std::vector<std::string>& out) {
  std::vector<std::string> texts;
  read_list(value, at, list_items_max, [&](const node& item, const path& inner) {
    read_text(item, inner, pod_text_bytes_max, texts.emplace_back(), true);
  });
  out = std::move(texts);
}

void field_reader::read_matching(const node& value, const path& at, std::size_t bytes_max,
                                 const char* pattern, const char* rule, std::string& out) {
  std::string text;
  read_text(value, at, bytes_max, text);
  if (text.empty()) return;
  if (!matches(text, pattern)) return problem(at, "is '" + shown_piece(text) + "'; it must be " + rule);
  out = std::move(text);
}

void field_reader::read_bool(const node& value, const path& at, bool& out) {
  const bool plain = value.IsScalar() && value.Tag() != "!";
  if (!plain || (value.Scalar() != "true" && value.Scalar() != "false")) {
    return problem(at, "must be true or false");
  }
  out = value.Scalar() == "true";
}

void field_reader::read_number(const node& value, const path& at, std::uint32_t low, std::uint32_t high,
                               std::uint32_t& out) {
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (text.empty() || parsed.ec != std::errc{} || parsed.ptr != end || number < low || number > high) {
    return problem(at, "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  out = number;
}

void field_reader::read_quantity(const node& value, const path& at, std::string& out) {
  // Numbers are usual here, with and without quotes.
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  constexpr std::size_t longest = 32;
  if (text.size() > longest || !matches(text, "[0-9]+(\\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i)?")) {
    return problem(at, "must be a quantity such as 2, 500m or 16Gi");
  }
  if (text.find_first_of("123456789") == std::string::npos) return problem(at, "must be more than 0");
  out = text;
}

void field_reader::read_object_name(const node& value, const path& at, std::string& out) {
  read_matching(value, at, subdomain_bytes_max, subdomain_pattern,
                "lower case letters, digits, '-' and '.', as the names of objects are", out);
}

void field_reader::read_data_key(const node& value, const path& at, std::string& out) {
  read_matching(value, at, subdomain_bytes_max, "(?!\\.\\.)(?!\\.$)[-._A-Za-z0-9]+",
                "letters, digits, '-', '_' and '.', and neither '.' nor begin with '..'", out);
}

void field_reader::read_label_key(const node& value, const path& at, std::string& out) {
  std::string key;
  read_text(value, at, subdomain_bytes_max + 1 + label_bytes_max, key);
  if (key.empty()) return;
  if (const auto wrong = problem_of_key(key); !wrong.empty()) return problem(at, wrong);
  out = std::move(key);
}

void field_reader::read_label_value(const node& value, const path& at, std::string& out) {
  std::string text;
  read_text(value, at, label_bytes_max, text, true);
  if (!text.empty() && !matches(text, label_pattern)) {
    return problem(at, "is '" + shown_piece(text) + "'; it must be empty, or " + label_rule);
  }
  out = std::move(text);
}

}  // namespace orcd::app
