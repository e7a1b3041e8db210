// gemma3: 4 x 4 patches averaged into 256 rows, of pictures stretched to a square. idefics3 (SmolVLM):
// squares of patches one after the other, of pictures cut into tiles. Texts around them: transformers 5.24,
// processing_gemma3.py and processing_idefics3.py. voxtral: Whisper's tower, four positions one after the
// other; the text around them is mistral-common's.
#include "engine/media/projector_table.hpp"

#include <array>

namespace orcd::engine {
namespace {

/// Patches of a view's side that become one row.
std::uint32_t read_merge(hparam_reader& from, const tower_spec& spec, std::uint32_t fallback) {
  const std::uint32_t side = spec.pictures.side / std::max(spec.pictures.patch, 1U);
  const std::uint32_t merge =
      from.count("projector.scale_factor", 1, std::max(side, 1U), std::min(fallback, std::max(side, 1U)));
  if (side % merge != 0) {
    from.problems().add("key '" + from.full("projector.scale_factor") + "' is " + std::to_string(merge) +
                        "; it must divide the " + std::to_string(side) + " patches of a side");
  }
  return merge;
}

void read_gemma3(hparam_reader& from, tower_spec& spec) {
  spec.pictures.layout = picture_layout::square;
  spec.pictures.filter = resize_filter::bilinear;
  spec.pictures.merge = read_merge(from, spec, 4);
  spec.merge = tower_merge::average;
  spec.transposed_projection = true;
  spec.rows_see_each_other = true;
  spec.text = {.placeholder = "<start_of_image>",
               .token = "<image_soft_token>",
               .before = "\n\n<start_of_image>",
               .after = "<end_of_image>\n\n"};
}

void read_idefics3(hparam_reader& from, tower_spec& spec) {
  constexpr std::uint32_t tiles_a_side = 4;  // of files that do not say how long the longest side becomes
  spec.pictures.layout = picture_layout::tiles;
  spec.pictures.filter = resize_filter::lanczos;
  spec.pictures.merge = read_merge(from, spec, 4);
  const std::uint32_t usual = std::min(tiles_a_side * spec.pictures.side, picture_limits::longest_max);
  spec.pictures.longest = from.count("preproc_image_size", 1, picture_limits::longest_max, usual);
  spec.merge = tower_merge::concatenate;
  spec.text = {.placeholder = "<image>",
               .token = "<image>",
               .before = "<fake_token_around_image><global-img>",
               .after = "<fake_token_around_image>",
               .tile_before = "<fake_token_around_image><row_{row}_col_{column}>",
               .row_after = "\n",
               .whole_before = "\n<fake_token_around_image><global-img>",
               .whole_after = "<fake_token_around_image>"};
}

void read_voxtral(hparam_reader& from, tower_spec& spec) {
  constexpr std::uint32_t bins_max = 256;
  sound_rules sound;
  sound.bins = from.count("num_mel_bins", 1, bins_max);
  sound.stack = from.count("projector.stack_factor", 1, chunk_frames / 2, 4);
  if (chunk_frames / 2 % sound.stack != 0) {
    from.problems().add("key '" + from.full("projector.stack_factor") + "' is " +
                        std::to_string(sound.stack) + "; it must divide the " +
                        std::to_string(chunk_frames / 2) + " positions of a chunk");
  }
  spec.sound = sound;
  spec.gelu_tanh = false;
  spec.text = {.placeholder = "[AUDIO]", .token = "[AUDIO]", .before = "[BEGIN_AUDIO]", .part = "audio"};
}

constexpr std::array kinds{
    projector_kind{"gemma3", read_gemma3, "mm.input_projection.weight", "mm.soft_emb_norm.weight"},
    projector_kind{"idefics3", read_idefics3, "mm.model.fc.weight", nullptr},
    projector_kind{"voxtral", read_voxtral, "mm.a.mlp.1.weight", nullptr, true},
};

}  // namespace

std::span<const projector_kind> projector_kinds() noexcept {
  return kinds;
}

}  // namespace orcd::engine
