#include "engine/sampling/sampler_order.hpp"

#include <algorithm>
#include <array>

namespace orcd::engine {
namespace {

/// In the order of sample().
constexpr std::array own{sampler::penalties, sampler::temperature, sampler::top_k, sampler::top_p,
                         sampler::min_p};
/// llama-server's.
constexpr std::array usual{sampler::penalties, sampler::dry,     sampler::top_n_sigma,
                           sampler::top_k,     sampler::typical, sampler::top_p,
                           sampler::min_p,     sampler::xtc,     sampler::temperature};

bool acts(sampler which, const sampling_params& params) noexcept {
  switch (which) {
    case sampler::penalties: return params.penalises();
    case sampler::dry: return params.uses_dry();
    case sampler::top_n_sigma: return params.top_n_sigma > 0.0F;
    case sampler::top_k: return params.top_k > 0;
    case sampler::typical: return params.typical_p < 1.0F;
    case sampler::top_p: return params.top_p < 1.0F;
    case sampler::min_p: return params.min_p > 0.0F;
    case sampler::xtc: return params.uses_xtc();
    case sampler::temperature: return params.temperature != 1.0F || params.dynatemp_range > 0.0F;
  }
  return false;
}

bool is_cut(sampler which) noexcept {
  return which == sampler::top_k || which == sampler::top_p || which == sampler::min_p ||
         which == sampler::top_n_sigma;
}

/// Whether only the most likely token is left, whichever cuts come first.
bool is_greedy(const sampling_params& params) noexcept {
  return params.temperature == 0.0F && !(params.dynatemp_range > 0.0F) && !params.uses_xtc() &&
         params.typical_p >= 1.0F;
}

/// Whether two samplers give the same whichever comes first. top_k goes by rank alone, which neither a
/// temperature nor min_p changes, unless the temperature follows what is left.
bool commute(sampler first, sampler second, const sampling_params& params) noexcept {
  const auto are = [&](sampler a, sampler b) {
    return (first == a && second == b) || (first == b && second == a);
  };
  const auto keeps_best = [](sampler which) { return is_cut(which) || which == sampler::temperature; };
  if (is_greedy(params) && keeps_best(first) && keeps_best(second)) return true;
  if (are(sampler::temperature, sampler::top_k)) return !(params.dynatemp_range > 0.0F);
  return are(sampler::top_k, sampler::min_p);
}

}  // namespace

std::string_view to_string(sampler which) noexcept {
  switch (which) {
    case sampler::penalties: return "penalties";
    case sampler::dry: return "dry";
    case sampler::top_n_sigma: return "top_n_sigma";
    case sampler::top_k: return "top_k";
    case sampler::typical: return "typ_p";
    case sampler::top_p: return "top_p";
    case sampler::min_p: return "min_p";
    case sampler::xtc: return "xtc";
    case sampler::temperature: return "temperature";
  }
  return {};
}

std::span<const sampler> order_of(const sampling_params& params) noexcept {
  if (params.uses_usual_order()) return usual;
  return own;
}

std::optional<order_difference> differs(std::span<const sampler> chain, const sampling_params& params) {
  const auto all = order_of(params);
  const auto place = [&](sampler which) { return std::find(chain.begin(), chain.end(), which); };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!acts(all[i], params)) continue;
    const auto at = place(all[i]);
    if (at == chain.end() && !(is_greedy(params) && is_cut(all[i]))) return order_difference{all[i]};
    for (std::size_t j = i + 1; j < all.size() && at != chain.end(); ++j) {
      if (!acts(all[j], params) || commute(all[i], all[j], params)) continue;
      if (place(all[j]) < at) return order_difference{all[i], false, all[j]};
    }
  }
  return std::nullopt;
}

}  // namespace orcd::engine
