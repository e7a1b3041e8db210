#include "engine/lora/peft_config.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/lora/adapter_error.hpp"
#include "engine/lora/strict_json.hpp"

namespace orcd::engine {
namespace {

namespace json = boost::json;

/// They tell where the adapter comes from, how it was trained, or what its tensors tell too.
constexpr std::array<std::string_view, 18> inert{"auto_mapping",      "base_model_name_or_path",
                                                 "corda_config",      "eva_config",
                                                 "exclude_modules",   "inference_mode",
                                                 "layers_pattern",    "layers_to_transform",
                                                 "loftq_config",      "lora_dropout",
                                                 "lora_ga_config",    "megatron_config",
                                                 "megatron_core",     "peft_version",
                                                 "qalora_group_size", "revision",
                                                 "runtime_config",    "task_type"};

/// Ways to begin the training that leave the model's own weights alone.
constexpr std::array<std::string_view, 3> harmless_starts{"gaussian", "eva", "orthogonal"};

constexpr std::uint64_t largest_rank = 1U << 20U;

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string_view view_of(const json::string& text) {
  return {text.data(), text.size()};
}

/// Whether a path is `end`, or ends in it after a dot.
bool fits(std::string_view path, std::string_view end) {
  if (!path.ends_with(end)) return false;
  return path.size() == end.size() || path[path.size() - end.size() - 1] == '.';
}

template <class T>
T first_fitting(const std::vector<std::pair<std::string, T>>& patterns, std::string_view path, T fallback) {
  const auto at = std::find_if(patterns.begin(), patterns.end(),
                               [&](const auto& pattern) { return fits(path, pattern.first); });
  return at == patterns.end() ? fallback : at->second;
}

/// null, false, "", [] and {}: what a field is when it is not used.
bool is_unused(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return true;
    case json::kind::bool_: return !value.get_bool();
    case json::kind::string: return value.get_string().empty();
    case json::kind::array: return value.get_array().empty();
    case json::kind::object: return value.get_object().empty();
    default: return false;
  }
}

std::optional<std::uint32_t> rank_value(const json::value& value) {
  const auto* number = value.if_int64();  // numbers that fit it are held so
  if (number == nullptr || *number < 1 || static_cast<std::uint64_t>(*number) > largest_rank) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*number);
}

std::optional<double> alpha_value(const json::value& value) {
  std::optional<double> out;
  if (const auto* whole = value.if_int64()) out = static_cast<double>(*whole);
  if (const auto* number = value.if_double()) out = *number;
  if (!out || !(*out > 0.0) || !std::isfinite(*out)) return std::nullopt;
  return out;
}

class config_reader {
 public:
  config_reader(const json::object& root, std::string_view file) : root_(root), file_(file) {}

  result<peft_config> read() {
    for (const auto& member : root_) {
      const std::string_view name(member.key().data(), member.key().size());
      if (auto read = read_member(name, member.value()); !read) return read.error();
    }
    if (out_.rank == 0) return adapter_error(file_, "'r' is missing");
    if (out_.alpha == 0.0) return adapter_error(file_, "'lora_alpha' is missing");
    return std::move(out_);
  }

 private:
  error wrong(std::string_view name, const json::value& value, std::string_view needs) const {
    const std::string text = value.is_object()  ? "an object"
                             : value.is_array() ? "an array"
                                                : in_quotes(json::serialize(value));
    return adapter_error(file_, in_quotes(name) + " is " + text + "; " + std::string(needs));
  }

  result<void> read_member(std::string_view name, const json::value& value) {
    if (name == "r") return read_rank(name, value, out_.rank);
    if (name == "lora_alpha") return read_alpha(name, value, out_.alpha);
    if (name == "use_rslora") return read_root_of_rank(value);
    if (name == "rank_pattern") return read_patterns(name, value, out_.ranks, &config_reader::read_rank);
    if (name == "alpha_pattern") return read_patterns(name, value, out_.alphas, &config_reader::read_alpha);
    if (name == "target_modules") return read_modules(value);
    if (name == "peft_type") return read_word(name, value, "LORA");
    if (name == "bias") return read_word(name, value, "none");
    if (name == "init_lora_weights") return read_start(value);
    if (contains(inert, name) || is_unused(value)) return {};
    return unknown(name, value);
  }

  /// Without the value where that is a text: the file may be another than its reader takes it for.
  error unknown(std::string_view name, const json::value& value) const {
    constexpr std::string_view needs = "this is not supported, and ignoring it could change the answers";
    if (!value.is_string()) return wrong(name, value, needs);
    return adapter_error(file_, in_quotes(name) + " is a text; " + std::string(needs));
  }

  result<void> read_rank(std::string_view name, const json::value& value, std::uint32_t& to) {
    const auto rank = rank_value(value);
    if (!rank)
      return wrong(name, value, "a rank is a whole number from 1 to " + std::to_string(largest_rank));
    to = *rank;
    return {};
  }

  result<void> read_alpha(std::string_view name, const json::value& value, double& to) {
    const auto alpha = alpha_value(value);
    if (!alpha) return wrong(name, value, "an alpha is a finite number above 0");
    to = *alpha;
    return {};
  }

  result<void> read_root_of_rank(const json::value& value) {
    if (!value.is_bool() && !value.is_null()) return wrong("use_rslora", value, "it must be true or false");
    out_.root_of_rank = value.is_bool() && value.get_bool();
    return {};
  }

  result<void> read_word(std::string_view name, const json::value& value, std::string_view only) {
    const json::string* text = value.if_string();
    if (text != nullptr && view_of(*text) == only) return {};
    return wrong(name, value, "only " + in_quotes(only) + " is supported");
  }

  /// Some ways take a part out of the model's weights, which are then not those of the model's file.
  result<void> read_start(const json::value& value) {
    if (value.is_bool() || value.is_null()) return {};
    const json::string* text = value.if_string();
    if (text != nullptr && contains(harmless_starts, view_of(*text))) return {};
    return wrong("init_lora_weights", value, "with it the model's own weights may have been changed");
  }

  /// A list of ends of paths; a single text is a regular expression, which the tensors' names stand in for.
  result<void> read_modules(const json::value& value) {
    if (value.is_string() || value.is_null()) return {};
    const json::array* list = value.if_array();
    if (list == nullptr) return wrong("target_modules", value, "it must be a list of texts, or a text");
    for (const json::value& module : *list) {
      if (!module.is_string()) return wrong("target_modules", module, "it must be a list of texts");
      out_.modules.emplace_back(view_of(module.get_string()));
    }
    return {};
  }

  /// Keys are regular expressions; those that are plain ends of paths are all that is supported.
  template <class T>
  result<void> read_patterns(std::string_view name, const json::value& value,
                             std::vector<std::pair<std::string, T>>& to,
                             result<void> (config_reader::*read_one)(std::string_view, const json::value&,
                                                                     T&)) {
    if (value.is_null()) return {};
    const json::object* patterns = value.if_object();
    if (patterns == nullptr) return wrong(name, value, "it must be an object");
    for (const auto& member : *patterns) {
      const std::string key(member.key().data(), member.key().size());
      const bool plain = std::all_of(key.begin(), key.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '.';
      });
      if (key.empty() || !plain) {
        return adapter_error(file_, in_quotes(name) + " has the key " + in_quotes(key) +
                                        "; only letters, digits, '_' and '.' are supported in it");
      }
      T number{};
      if (auto done = (this->*read_one)(std::string(name) + "." + key, member.value(), number); !done)
        return done;
      to.emplace_back(key, number);
    }
    return {};
  }

  const json::object& root_;
  std::string_view file_;
  peft_config out_;
};

}  // namespace

bool peft_config::has_module(std::string_view path) const noexcept {
  return modules.empty() ||
         std::any_of(modules.begin(), modules.end(), [&](const std::string& end) { return fits(path, end); });
}

std::uint32_t peft_config::rank_of(std::string_view path) const noexcept {
  return first_fitting(ranks, path, rank);
}

double peft_config::alpha_of(std::string_view path) const noexcept {
  return first_fitting(alphas, path, alpha);
}

result<peft_config> read_peft_config(std::string_view text, std::string_view file) {
  const auto root = read_strict_json(text, file);
  if (!root) return root.error();
  return config_reader(*root, file).read();
}

}  // namespace orcd::engine
