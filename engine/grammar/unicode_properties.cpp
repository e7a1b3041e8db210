// The general categories, from utf8proc, and the scripts.
#include <utf8proc.h>

#include <array>
#include <map>
#include <string>

#include "engine/grammar/character_sets.hpp"
#include "engine/grammar/unicode_scripts.hpp"

namespace orcd::engine::grammar {

namespace {

struct category {
  std::string_view code, name;
};
/// A category of one letter holds all whose code begins with it. Source: Unicode 15, PropertyValueAliases.
constexpr auto categories = std::to_array<category>({{"L", "Letter"},
                                                     {"Lu", "Uppercase_Letter"},
                                                     {"Ll", "Lowercase_Letter"},
                                                     {"Lt", "Titlecase_Letter"},
                                                     {"Lm", "Modifier_Letter"},
                                                     {"Lo", "Other_Letter"},
                                                     {"M", "Mark"},
                                                     {"Mn", "Nonspacing_Mark"},
                                                     {"Mc", "Spacing_Mark"},
                                                     {"Me", "Enclosing_Mark"},
                                                     {"N", "Number"},
                                                     {"Nd", "Decimal_Number"},
                                                     {"Nl", "Letter_Number"},
                                                     {"No", "Other_Number"},
                                                     {"P", "Punctuation"},
                                                     {"Pc", "Connector_Punctuation"},
                                                     {"Pd", "Dash_Punctuation"},
                                                     {"Ps", "Open_Punctuation"},
                                                     {"Pe", "Close_Punctuation"},
                                                     {"Pi", "Initial_Punctuation"},
                                                     {"Pf", "Final_Punctuation"},
                                                     {"Po", "Other_Punctuation"},
                                                     {"S", "Symbol"},
                                                     {"Sm", "Math_Symbol"},
                                                     {"Sc", "Currency_Symbol"},
                                                     {"Sk", "Modifier_Symbol"},
                                                     {"So", "Other_Symbol"},
                                                     {"Z", "Separator"},
                                                     {"Zs", "Space_Separator"},
                                                     {"Zl", "Line_Separator"},
                                                     {"Zp", "Paragraph_Separator"},
                                                     {"C", "Other"},
                                                     {"Cc", "Control"},
                                                     {"Cf", "Format"},
                                                     {"Co", "Private_Use"},
                                                     {"Cn", "Unassigned"}});

using category_sets = std::map<std::string, code_set, std::less<>>;

void add(code_set& to, char32_t code) {
  if (!to.empty() && to.back().last + 1 == code) {
    to.back().last = code;
  } else {
    to.push_back({code, code});
  }
}

category_sets make_sets() {
  category_sets out;
  for (char32_t code = 0; code <= last_code; ++code) {
    const std::string_view name = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
    add(out[std::string(name)], code);
    // What is unassigned today is no member of C: a later Unicode may make it a letter.
    if (name != "Cn") add(out[std::string(name.substr(0, 1))], code);
  }
  out["Any"] = {{0, last_code}};
  out["ASCII"] = {{0, 0x7F}};
  return out;
}

std::vector<code_set> make_scripts() {
  std::vector<code_set> out(script_names().size());
  for (const script_range& range : script_ranges()) out[range.script].push_back({range.first, range.last});
  return out;
}

const code_set* script(std::string_view name) {
  static const std::vector<code_set> sets = make_scripts();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (name == script_names()[i].code || name == script_names()[i].name) return &sets[i];
  }
  return nullptr;
}

}  // namespace

const code_set* unicode_property(std::string_view name) {
  static const category_sets sets = make_sets();
  for (const std::string_view prefix : {"Script=", "sc="}) {
    if (name.starts_with(prefix)) return script(name.substr(prefix.size()));
  }
  bool plain = true;
  for (const std::string_view prefix : {"General_Category=", "gc="}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    plain = false;
    break;
  }
  for (const auto& [code, full] : categories) {
    if (name != code && name != full) continue;
    const auto found = sets.find(code);
    return found == sets.end() ? nullptr : &found->second;
  }
  return plain && (name == "Any" || name == "ASCII") ? &sets.find(name)->second : nullptr;
}

}  // namespace orcd::engine::grammar
