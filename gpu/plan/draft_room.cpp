#include "gpu/plan/draft_room.hpp"

#include <algorithm>

#include "engine/accelerator.hpp"
#include "gpu/plan/step_results.hpp"
#include "kernels/attention/attention_args.hpp"

namespace orcd::gpu {

draft_room plan_drafts(const engine::model_spec& spec, std::uint32_t slots, std::uint32_t pages,
                       std::uint32_t wanted) noexcept {
  if (spec.pooling) return {};
  std::uint64_t heads = 0;
  for (const auto& layer : spec.layers) heads = std::max<std::uint64_t>(heads, layer.heads);
  // A head's partial result of a page: its values, and two numbers to fold them by.
  const std::uint32_t width =
      spec.latent ? spec.latent.rank : kernels::padded_head_width(spec.key_length_max());
  const std::uint64_t partial = heads * pages * (width + 2);
  const std::uint64_t each = (spec.vocab + partial) * sizeof(float);
  const std::uint64_t room =
      std::min<std::uint64_t>({wanted, draft_bytes_max / each, std::uint64_t{slots} * engine::drafts_max});
  const std::uint32_t tokens = drafts_that_fit(slots, static_cast<std::uint32_t>(room));
  return {tokens, tokens * each};
}

}  // namespace orcd::gpu
