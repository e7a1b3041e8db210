#include "engine/served/sampling_defaults.hpp"

#include <array>
#include <sstream>
#include <variant>

#include "engine/sampling/sampling_ranges.hpp"

namespace orcd::engine {
namespace {

constexpr std::string_view prefix = "general.sampling.";

std::optional<double> number_in(const gguf_value& value) {
  if (const auto* real = std::get_if<double>(&value.value)) return *real;
  if (const auto* whole = std::get_if<std::uint64_t>(&value.value)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<std::int64_t>(&value.value)) return static_cast<double>(*whole);
  return std::nullopt;
}

/// The keys that mean something here; `off` is a value that turns the thing off there, and what it is here.
struct real_key {
  std::string_view key;
  std::optional<float> sampling_values::*to;
  real_range range;
};
constexpr std::array real_keys{
    real_key{"temp", &sampling_values::temperature, temperature_range},
    real_key{"top_p", &sampling_values::top_p, top_p_range},
    real_key{"min_p", &sampling_values::min_p, min_p_range},
    real_key{"penalty_repeat", &sampling_values::repetition_penalty, repetition_penalty_range},
    real_key{"xtc_probability", &sampling_values::xtc_probability, share_range},
    real_key{"xtc_threshold", &sampling_values::xtc_threshold, share_range},
};

/// Keys of samplers that there are none of here, and the value that turns each off.
struct other_key {
  std::string_view key;
  double off;
};
constexpr std::array other_keys{other_key{"mirostat", 0.0}};

std::string text_of(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

class file_reader {
 public:
  explicit file_reader(const gguf_file& file) : file_(file) {}

  file_sampling read() && {
    for (const auto& row : real_keys) take(row);
    // In a file as on llama.cpp's command line 0 and less are off, and a window of -1 is the context.
    if (const auto k = whole("top_k")) out_.values.top_k = *k <= 0 ? 0U : clamp(*k, top_k_max);
    if (const auto n = whole("penalty_last_n")) {
      out_.values.repeat_last_n = *n < 0 ? repeat_last_n_max : clamp(*n, repeat_last_n_max);
    }
    for (const auto& row : other_keys) {
      const auto value = find(row.key);
      if (value && *value != row.off) leave(row.key, *value, "there is no such sampler here");
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] static std::uint32_t clamp(double value, double most) noexcept {
    return static_cast<std::uint32_t>(value < most ? value : most);
  }
  void leave(std::string_view key, double value, const std::string& why) {
    out_.left.push_back(std::string(prefix) + std::string(key) + " is " + text_of(value) + ": " + why);
  }
  std::optional<double> find(std::string_view key) {
    const auto* const value = file_.find(std::string(prefix) + std::string(key));
    if (value == nullptr) return std::nullopt;
    const auto number = number_in(*value);
    if (!number) out_.left.push_back(std::string(prefix) + std::string(key) + " is no number");
    return number;
  }
  std::optional<double> whole(std::string_view key) {
    const auto value = find(key);
    // NaN and fractions are none.
    if (!value || static_cast<double>(static_cast<std::int64_t>(bounded(*value))) == *value) return value;
    leave(key, *value, "it is no whole number");
    return std::nullopt;
  }
  /// What an integer of 64 bits can have.
  [[nodiscard]] static double bounded(double value) noexcept {
    constexpr double most = 1e15;
    return value > most ? most : value > -most ? value : -most;
  }
  void take(const real_key& row) {
    const auto value = find(row.key);
    if (!value) return;
    // What is used is the float: 1e-60 is above 0 and its float is not.
    if (!row.range.has(static_cast<float>(*value))) {
      return leave(row.key, *value,
                   std::string("it must be ") + (row.range.above_low ? "above " : "") +
                       text_of(row.range.low) + " to " + text_of(row.range.high));
    }
    out_.values.*row.to = static_cast<float>(*value);
  }

  const gguf_file& file_;
  file_sampling out_;
};

}  // namespace

file_sampling read_file_sampling(const gguf_file& file) {
  return file_reader(file).read();
}

std::string_view to_string(default_origin origin) noexcept {
  switch (origin) {
    case default_origin::api: return "api";
    case default_origin::file: return "file";
    case default_origin::option: break;
  }
  return "option";
}

sampling_defaults settle_sampling(const sampling_values& file, const sampling_values& options) {
  sampling_defaults out;
  const auto settle = [&](std::string_view name, auto from, auto to) {
    auto origin = default_origin::api;
    if (options.*from) {
      out.params.*to = *(options.*from);
      origin = default_origin::option;
    } else if (file.*from) {
      out.params.*to = *(file.*from);
      origin = default_origin::file;
    }
    out.told.push_back({name, static_cast<double>(out.params.*to), origin});
  };
  using v = sampling_values;
  using p = sampling_params;
  settle("temperature", &v::temperature, &p::temperature);
  settle("top_k", &v::top_k, &p::top_k);
  settle("top_p", &v::top_p, &p::top_p);
  settle("min_p", &v::min_p, &p::min_p);
  settle("repetition_penalty", &v::repetition_penalty, &p::repetition_penalty);
  settle("presence_penalty", &v::presence_penalty, &p::presence_penalty);
  settle("frequency_penalty", &v::frequency_penalty, &p::frequency_penalty);
  settle("repeat_last_n", &v::repeat_last_n, &p::repeat_last_n);
  settle("dry_multiplier", &v::dry_multiplier, &p::dry_multiplier);
  settle("dry_base", &v::dry_base, &p::dry_base);
  settle("dry_allowed_length", &v::dry_allowed_length, &p::dry_allowed_length);
  settle("dry_penalty_last_n", &v::dry_last_n, &p::dry_last_n);
  settle("xtc_probability", &v::xtc_probability, &p::xtc_probability);
  settle("xtc_threshold", &v::xtc_threshold, &p::xtc_threshold);
  settle("typical_p", &v::typical_p, &p::typical_p);
  settle("top_n_sigma", &v::top_n_sigma, &p::top_n_sigma);
  settle("dynatemp_range", &v::dynatemp_range, &p::dynatemp_range);
  settle("dynatemp_exponent", &v::dynatemp_exponent, &p::dynatemp_exponent);
  return out;
}

}  // namespace orcd::engine
