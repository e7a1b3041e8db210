// gemma3: 4 x 4 patches averaged into 256 rows, of pictures stretched to a square. idefics3 (SmolVLM):
// squares of patches one after the other, of pictures cut into tiles. qwen2vl_merger, qwen2.5vl_merger and
// qwen3vl_merger: pictures of any size, whose 2 x 2 patches become one row. voxtral: Whisper's tower, four
// positions one after the other. Texts around them: transformers 5.24, processing_gemma3.py,
// processing_idefics3.py, processing_qwen2_vl.py, processing_qwen2_5_vl.py and processing_qwen3_vl.py, and
// mistral-common; sizes: image_processing_qwen2_vl.py.
#include "engine/media/projector_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

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

void check_turned_heads(hparam_reader& from, const tower_spec& spec) {
  if (spec.head_width() % 4 == 0) return;
  from.problems().add("heads have " + std::to_string(spec.head_width()) +
                      " values; to be turned by line and column they must be a multiple of 4");
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

/// Pictures of any size, in whole squares of merge x merge patches. The files seldom say how many pixels they
/// may have; `least` and `most` are what the models were trained with.
void read_any_size(hparam_reader& from, tower_spec& spec, std::uint64_t least, std::uint64_t most) {
  constexpr std::uint32_t merge_max = 8;
  constexpr auto pixels_max = std::numeric_limits<std::int32_t>::max();
  picture_rules& pictures = spec.pictures;
  pictures.layout = picture_layout::multiples;
  pictures.filter = resize_filter::bicubic;
  pictures.merge = from.count("spatial_merge_size", 1, merge_max, 2);
  pictures.factor = pictures.patch * pictures.merge;
  pictures.pixels_min = from.count("image_min_pixels", 1, pixels_max, static_cast<std::uint32_t>(least));
  pictures.pixels_max = from.count("image_max_pixels", 1, pixels_max, static_cast<std::uint32_t>(most));
  if (pictures.pixels_min > pictures.pixels_max ||
      pictures.pixels_max < std::uint64_t{pictures.factor} * pictures.factor) {
    from.problems().add("key '" + from.full("image_max_pixels") + "' is " +
                        std::to_string(pictures.pixels_max) + "; it must be at least " +
                        from.full("image_min_pixels") + " and " +
                        std::to_string(std::uint64_t{pictures.factor} * pictures.factor));
    pictures.pixels_max = std::uint64_t{pictures.factor} * pictures.factor;
  }
}

void read_qwen(hparam_reader& from, tower_spec& spec) {
  check_turned_heads(from, spec);
  spec.rotation = tower_rotation::joined;
  spec.two_frames = true;
  spec.merge = tower_merge::concatenate;
  spec.rows_are_grid = true;
  spec.text = {.placeholder = "<|image_pad|>", .token = "<|image_pad|>"};
}

void read_qwen2(hparam_reader& from, tower_spec& spec) {
  read_any_size(from, spec, 56ULL * 56, 16'384ULL * 28 * 28);
  read_qwen(from, spec);
  spec.activation = ffn_activation::gelu_sigmoid;
  spec.positions = tower_positions::none;
}

void read_qwen25(hparam_reader& from, tower_spec& spec) {
  read_any_size(from, spec, 56ULL * 56, 16'384ULL * 28 * 28);
  read_qwen(from, spec);
  spec.norm = norm_kind::rms;
  spec.activation = ffn_activation::swiglu;
  spec.positions = tower_positions::none;
  const std::uint32_t pixels = from.count("window_size", 1, hparam_limits::embedding, 112);
  const std::uint32_t factor = std::max(spec.pictures.factor, 1U);
  spec.full_every = from.count("n_wa_pattern", 1, hparam_limits::layers);
  spec.window = pixels / factor * spec.pictures.merge;
  if (spec.window == 0) {
    from.problems().add("key '" + from.full("window_size") + "' is " + std::to_string(pixels) +
                        "; it must be at least the " + std::to_string(factor) + " pixels of a row's side");
    spec.window = spec.pictures.merge;
  }
}

void read_qwen3(hparam_reader& from, tower_spec& spec) {
  read_any_size(from, spec, 256ULL * 256, 4'096ULL * 4'096);
  read_qwen(from, spec);
  spec.positions = tower_positions::between;
  spec.position_side = spec.pictures.side / std::max(spec.pictures.patch, 1U);
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
  spec.activation = ffn_activation::gelu;
  spec.text = {.placeholder = "[AUDIO]", .token = "[AUDIO]", .before = "[BEGIN_AUDIO]", .part = "audio"};
}

/// Gemma 4 (modeling_gemma4.py, image_processing_gemma4.py): the pictures' values are scaled by the model
/// alone.
void read_gemma4(hparam_reader& from, tower_spec& spec) {
  constexpr std::uint32_t merge_max = 8;
  constexpr std::uint32_t trained_rows = 280;
  picture_rules& pictures = spec.pictures;
  pictures.layout = picture_layout::budget;
  pictures.filter = resize_filter::bicubic;
  pictures.merge = from.count("projector.scale_factor", 1, merge_max, 3);
  pictures.factor = pictures.patch * pictures.merge;
  pictures.rows_max = trained_rows;
  pictures.mean = pictures.deviation = {0.5F, 0.5F, 0.5F};
  check_turned_heads(from, spec);
  spec.norm = norm_kind::rms;
  spec.activation = ffn_activation::geglu_tanh;
  spec.names_activation = spec.end_norm = false;
  spec.post_norms = spec.head_norms = true;
  spec.attention_scale = 1.0;
  spec.positions = tower_positions::by_side;
  spec.rotation = tower_rotation::parted;
  spec.rotation_base = 100.0;
  spec.merge = tower_merge::average;
  spec.merge_scale = std::sqrt(static_cast<double>(spec.width));
  spec.rows_see_each_other = spec.rows_see_by_model = true;
  spec.text = {.placeholder = "<|image|>", .token = "<|image|>", .before = "<|image>", .after = "<image|>"};
}

/// Pixtral, and Mistral Small 3.1 (modeling_pixtral.py, modeling_mistral3.py), which alone has squares.
void read_pixtral(hparam_reader& from, tower_spec& spec) {
  constexpr std::uint32_t merge_max = 8;
  picture_rules& pictures = spec.pictures;
  pictures.layout = picture_layout::bounded;
  pictures.filter = resize_filter::bicubic;
  pictures.longest = pictures.side;
  pictures.merge = from.count("spatial_merge_size", 1, merge_max, 1);
  pictures.factor = pictures.patch * pictures.merge;
  check_turned_heads(from, spec);
  spec.norm = norm_kind::rms;
  spec.activation = ffn_activation::swiglu;
  spec.positions = tower_positions::none;
  spec.rotation = tower_rotation::adjacent;
  spec.pre_norm = true;
  spec.reduces = spec.end_norm = pictures.merge > 1;
  spec.merge = tower_merge::concatenate;
  spec.inner_width = spec.out_width;
  spec.text = {.placeholder = "[IMG]", .token = "[IMG]", .after = "[IMG_END]", .line_after = "[IMG_BREAK]"};
}

constexpr std::array kinds{
    projector_kind{"gemma3", read_gemma3, "mm.input_projection.weight", "mm.soft_emb_norm.weight"},
    projector_kind{"idefics3", read_idefics3, "mm.model.fc.weight", nullptr},
    projector_kind{.name = "gemma4v",
                   .read = read_gemma4,
                   .projection = "mm.input_projection.weight",
                   .merge_norm = nullptr,
                   .leaves_sounds = true},
    projector_kind{.name = "pixtral",
                   .read = read_pixtral,
                   .projection = nullptr,
                   .merge_norm = nullptr,
                   .merger = "mm.1"},
    projector_kind{"qwen2vl_merger", read_qwen2, nullptr, nullptr},
    projector_kind{"qwen2.5vl_merger", read_qwen25, nullptr, nullptr},
    projector_kind{"qwen3vl_merger", read_qwen3, nullptr, nullptr},
    projector_kind{"voxtral", read_voxtral, nullptr, nullptr, true},
};

}  // namespace

std::span<const projector_kind> projector_kinds() noexcept {
  return kinds;
}

}  // namespace orcd::engine
