#include "engine/grammar/schema/document.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

constexpr auto of_one = std::to_array<std::string_view>(
    {"additionalProperties", "items", "additionalItems", "contains", "propertyNames", "not", "if", "then",
     "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema"});
constexpr auto of_list = std::to_array<std::string_view>({"allOf", "anyOf", "oneOf", "prefixItems", "items"});
constexpr auto of_names = std::to_array<std::string_view>(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"});

template <class Names>
bool lists(const Names& names, std::string_view name) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// A schema of the document, and how it is reached from the one around it.
struct part {
  const json::value* what = nullptr;
  std::size_t around = nowhere;
  std::string_view keyword{}, name{};
  std::size_t number = nowhere;  ///< in a list
  std::size_t base = 0;          ///< of its URI
};

/// All schemas of a document, each behind those around it.
class parts_of {
 public:
  explicit parts_of(const json::value& root) {
    add({&root, nowhere, {}, {}, nowhere, 0});
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const json::object* schema = all_[i].what->if_object();
      if (schema == nullptr) continue;
      compile_budget::work(2 + 2 * schema->size());
      for (const auto& member : *schema) add_below(i, view(member.key()), member.value());
    }
  }
  [[nodiscard]] counted_vector<part>& all() noexcept { return all_; }
  [[nodiscard]] const counted_vector<part>& all() const noexcept { return all_; }

 private:
  void add(const part& one) {
    if (one.what->is_object()) all_.push_back(one);
  }
  void add_below(std::size_t around, std::string_view keyword, const json::value& value) {
    if (lists(of_one, keyword)) add({&value, around, keyword, {}, nowhere, 0});
    if (lists(of_list, keyword) && value.is_array()) {
      for (std::size_t i = 0; i < value.get_array().size(); ++i)
        add({&value.get_array()[i], around, keyword, {}, i, 0});
    }
    if (lists(of_names, keyword) && value.is_object()) {
      for (const auto& member : value.get_object())
        add({&member.value(), around, keyword, view(member.key()), nowhere, 0});
    }
  }

  counted_vector<part> all_;
};

bool has_scheme(std::string_view uri) noexcept {
  const std::size_t end = uri.find_first_of(":/?#");
  return end != std::string_view::npos && end > 0 && uri[end] == ':';
}

/// A path without "." and ".." (RFC 3986, 5.2.4).
std::string without_dots(std::string_view path) {
  std::vector<std::string_view> steps;
  const bool rooted = path.starts_with('/');
  while (!path.empty()) {
    const std::size_t size = std::min(path.find('/', 1), path.size());
    const std::string_view step = path.substr(0, size);
    path.remove_prefix(size);
    const std::string_view name = step.starts_with('/') ? step.substr(1) : step;
    if (name == "..") {
      if (!steps.empty()) steps.pop_back();
    } else if (name != ".") {
      steps.push_back(step);
    }
    if (path.empty() && (name == "." || name == "..")) steps.emplace_back("/");
  }
  std::string out;
  for (const std::string_view step : steps) out += step;
  return rooted && out.empty() ? "/" : out;
}

/// A reference without fragment, as a URI (RFC 3986, 5.2.2).
std::string resolved(std::string_view base, std::string_view reference) {
  compile_budget::work(4 + (base.size() + reference.size()) / 8);
  if (reference.empty()) return std::string(base);
  if (has_scheme(reference)) return std::string(reference);
  const std::size_t scheme = has_scheme(base) ? base.find(':') + 1 : 0;
  if (reference.starts_with("//")) return std::string(base.substr(0, scheme)) + std::string(reference);
  const bool has_authority = base.substr(scheme).starts_with("//");
  const std::size_t path = has_authority ? std::min(base.find('/', scheme + 2), base.size()) : scheme;
  const std::string before(base.substr(0, path));
  if (reference.starts_with('/')) return before + without_dots(reference);
  const std::string_view old = base.substr(path);
  const std::size_t folder = old.rfind('/');
  std::string merged(folder == std::string_view::npos ? (has_authority ? "/" : "")
                                                      : old.substr(0, folder + 1));
  return before + without_dots(merged + std::string(reference));
}

struct parted_uri {
  std::string_view whole, fragment;
};
parted_uri parted(std::string_view uri) noexcept {
  const std::size_t hash = std::min(uri.find('#'), uri.size());
  return {uri.substr(0, hash), uri.substr(std::min(hash + 1, uri.size()))};
}

const json::string* text_at(const part& of, const char* keyword) {
  const json::value* found = of.what->get_object().if_contains(keyword);
  return found == nullptr ? nullptr : found->if_string();
}

bool is_plain(const json::string* reference) {
  return reference == nullptr || *reference == "#" || view(*reference).starts_with("#/");
}

/// Brings the references of a document to pointers.
class reference_writer {
 public:
  explicit reference_writer(json::value& root) : parts_(root) {
    bases_.emplace_back();
    for (std::size_t i = 0; i < parts_.all().size(); ++i) name(i);
  }

  void run() {
    for (const part& one : parts_.all()) {
      const json::string* reference = text_at(one, "$ref");
      if (reference == nullptr) continue;
      const auto [whole, fragment] = parted(view(*reference));
      std::string uri = resolved(bases_[one.base], whole);
      // The document is this writer's own copy.
      auto& written = const_cast<json::value*>(one.what)->get_object().at("$ref").get_string();
      if (const auto found = pointer_of(uri, fragment)) {
        written = "#" + *found;
      } else if (!uri.empty() || !fragment.empty()) {
        uri += '#';
        uri += fragment;
        written = uri;
      }
    }
  }

 private:
  void name(std::size_t i) {
    part& one = parts_.all()[i];
    if (one.around != nowhere) one.base = parts_.all()[one.around].base;
    if (const json::string* id = text_at(one, "$id")) {
      const auto [whole, fragment] = parted(view(*id));
      if (!whole.empty()) {
        bases_.push_back(resolved(bases_[one.base], whole));
        if (bases_.back().size() > path_bytes_max)
          fail("#", "an $id has more than " + std::to_string(path_bytes_max) + " bytes");
        held_.add(bases_.back().size() + sizeof(bases_.back()));
        one.base = bases_.size() - 1;
      }
      if (!whole.empty()) keep(one.base, {}, i);
      if (!fragment.empty()) keep(one.base, fragment, i);  // an anchor of draft 7
    }
    if (i == 0) keep(0, {}, i);
    for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
      if (const json::string* anchor = text_at(one, keyword)) keep(one.base, view(*anchor), i);
    }
  }
  void keep(std::size_t base, std::string_view fragment, std::size_t i) {
    constexpr std::size_t overhead = 128;
    held_.add(bases_[base].size() + fragment.size() + overhead);
    named_.try_emplace({bases_[base], std::string(fragment)}, i);
  }

  [[nodiscard]] std::optional<std::string> pointer_of(const std::string& uri,
                                                      std::string_view fragment) const {
    const bool is_pointer = fragment.empty() || fragment.starts_with('/');
    const auto found = named_.find({uri, is_pointer ? std::string() : std::string(fragment)});
    if (found == named_.end()) return std::nullopt;
    std::string out;
    for (std::size_t i = found->second; i != 0; i = parts_.all()[i].around)
      out = step_of(parts_.all()[i]) + out;
    compile_budget::work(4 + out.size() / 4);
    if (out.size() > path_bytes_max) return std::nullopt;
    return is_pointer ? out + std::string(fragment) : out;
  }

  static std::string step_of(const part& one) {
    std::string out = "/" + std::string(one.keyword);
    if (one.number != nowhere) out += "/" + std::to_string(one.number);
    const bool named = lists(of_names, one.keyword);
    if (!named) return out;
    out += '/';
    for (const char c : one.name) {
      if (c == '~') {
        out += "~0";
      } else if (c == '/') {
        out += "~1";
      } else if (c == '%') {
        out += "%25";
      } else {
        out += c;
      }
    }
    return out;
  }

  parts_of parts_;
  held_bytes held_;
  std::vector<std::string> bases_;
  std::map<std::pair<std::string, std::string>, std::size_t> named_;
};

}  // namespace

void each_unknown_keyword(const json::value& root, const std::function<void(std::string_view)>& found) {
  parts_of parts(root);
  for (const part& one : parts.all()) {
    for (const auto& member : one.what->get_object()) {
      if (!is_known_keyword(view(member.key()))) found(view(member.key()));
    }
  }
}

std::optional<json::value> with_plain_references(const json::value& root) {
  parts_of parts(root);
  const bool plain = std::all_of(parts.all().begin(), parts.all().end(), [&](const part& one) {
    return is_plain(text_at(one, "$ref")) && (one.around == nowhere || text_at(one, "$id") == nullptr);
  });
  if (plain) return std::nullopt;
  json::value out = copied(root);
  reference_writer(out).run();
  return out;
}

}  // namespace orcd::engine::grammar
