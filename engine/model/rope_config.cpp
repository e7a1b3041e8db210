#include "engine/model/rope_config.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/gguf/byte_cursor.hpp"

namespace orcd::engine {
namespace {

constexpr double largest_factor = 1e6;

std::optional<rope_scaling> scaling_named(std::string_view name) {
  if (name == "none") return rope_scaling::none;
  if (name == "linear") return rope_scaling::linear;
  if (name == "yarn") return rope_scaling::yarn;
  if (name == "longrope") return rope_scaling::longrope;
  return std::nullopt;
}

rope_scaling read_scaling(hparam_reader& from, double factor) {
  if (from.has("rope.scaling.type")) {
    const std::string_view name = from.text("rope.scaling.type", "none");
    if (const auto scaling = scaling_named(name)) return *scaling;
    from.problems().add("key '" + from.full("rope.scaling.type") + "' is " + in_quotes(name) +
                        "; supported are none, linear, yarn, longrope");
    return rope_scaling::none;
  }
  if (from.file().find_tensor("rope_factors_long.weight") != nullptr) return rope_scaling::longrope;
  return factor > 0.0 && factor != 1.0 ? rope_scaling::linear : rope_scaling::none;
}

/// The magnitude that Hugging Face derives when the file gives none: sqrt(1 + ln(extension) / ln(original)).
double longrope_magnitude(const model_spec& spec, std::uint32_t original) {
  if (original < 2 || spec.context_length <= original) return 1.0;
  const double extension = static_cast<double>(spec.context_length) / original;
  return std::sqrt(1.0 + std::log(extension) / std::log(static_cast<double>(original)));
}

class override_reader {
 public:
  explicit override_reader(problem_list& problems) : problems_(problems) {}

  void number(const std::optional<double>& value, std::string_view name, double least, double most,
              double& to) {
    if (!value) return;
    if (*value >= least && *value <= most) {
      to = *value;
      return;
    }
    problems_.add("RoPE override " + std::string(name) + " is " + std::to_string(*value) + "; it must be " +
                  std::to_string(least) + " to " + std::to_string(most));
  }

 private:
  problem_list& problems_;
};

void apply(const rope_overrides& o, problem_list& problems, rope_spec& rope) {
  override_reader read(problems);
  read.number(o.freq_base, "frequency base", 1.001, 1e12, rope.base);
  read.number(o.attn_factor, "attention factor", 1e-3, 1e3, rope.attn_factor);
  read.number(o.beta_fast, "beta fast", 1e-6, 1e6, rope.beta_fast);
  read.number(o.beta_slow, "beta slow", 1e-6, 1e6, rope.beta_slow);
  if (o.ext_factor && *o.ext_factor != -1.0)
    read.number(o.ext_factor, "ext factor", 0.0, 1.0, rope.ext_factor);
  if (o.original_context && *o.original_context != 0) {
    double original = rope.original_context;
    read.number(*o.original_context, "original context", 1, hparam_limits::context, original);
    rope.original_context = static_cast<std::uint32_t>(original);
  }
  if (o.round_correction_dims) rope.round_correction_dims = *o.round_correction_dims;
  if (o.scaling) rope.scaling = *o.scaling;
  if (o.freq_scale) {
    double scale = 1.0;
    read.number(o.freq_scale, "frequency scale", 1.0 / largest_factor, largest_factor, scale);
    rope.factor = 1.0 / scale;
    // A scale without a scaling type means linear interpolation: no other type would use it.
    if (!o.scaling && rope.scaling == rope_scaling::none) rope.scaling = rope_scaling::linear;
  }
}

void settle_factor(rope_spec& rope, std::uint32_t context) {
  if (rope.scaling == rope_scaling::none) rope.factor = 1.0;
  if (rope.factor > 0.0) return;
  rope.factor = 1.0;
  if (rope.scaling == rope_scaling::longrope) return;
  rope.factor = std::max(1.0, static_cast<double>(context) / std::max(1U, rope.original_context));
}

}  // namespace

rope_spec read_rope(hparam_reader& from, const model_spec& spec) {
  rope_spec rope;
  const std::uint32_t width = spec.layers.front().key_length;
  rope.dims = from.count("rope.dimension_count", 2, std::max(2U, width), width);
  if (rope.dims % 2 != 0) {
    from.problems().add("key '" + from.full("rope.dimension_count") + "' is " + std::to_string(rope.dims) +
                        "; it must be even");
    rope.dims = 2;
  }
  rope.base = from.number("rope.freq_base", 1.001, 1e12, 10'000.0);
  rope.factor = from.number("rope.scaling.factor", 0.0, largest_factor,
                            from.number("rope.scale_linear", 0.0, largest_factor, 0.0));
  rope.scaling = read_scaling(from, rope.factor);
  rope.original_context =
      from.count("rope.scaling.original_context_length", 1, hparam_limits::context, spec.context_length);
  const bool longrope = rope.scaling == rope_scaling::longrope;
  rope.attn_factor = from.number("rope.scaling.attn_factor", 1e-3, 1e3,
                                 longrope ? longrope_magnitude(spec, rope.original_context) : 1.0) *
                     from.number("rope.scaling.yarn_attn_factor", 1e-3, 1e3, 1.0);
  const double mix = from.number("rope.scaling.yarn_ext_factor", -1.0, 1.0, -1.0);
  rope.ext_factor = mix < 0.0 ? 1.0 : mix;
  rope.beta_fast = from.number("rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32.0);
  rope.beta_slow = from.number("rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1.0);
  rope.round_correction_dims = true;
  return rope;
}

void apply_rope_overrides(const rope_overrides& overrides, std::uint32_t context, model_spec& spec,
                          problem_list& problems) {
  problem_list repeated;  // every layer would report the same
  bool first = true;
  for (layer_spec& layer : spec.layers) {
    if (!layer.rope.fixed) {
      apply(overrides, first ? problems : repeated, layer.rope);
      first = false;
    }
    settle_factor(layer.rope, context);
  }
}

void scale_scores(model_spec& spec) {
  const rope_spec& rope = spec.layers.front().rope;
  const bool extrapolates = rope.scaling == rope_scaling::yarn && rope.ext_factor > 0.0 && rope.factor > 1.0;
  if (!extrapolates) return;
  const double growth = 1.0 + 0.1 * rope.score_log_multiplier * std::log(rope.factor);
  spec.attention_scale *= growth * growth;
}

}  // namespace orcd::engine
