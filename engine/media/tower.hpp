// What a projector file holds, as data: the tower that turns pictures or sounds into rows of the text model's
// width, how it wants them, and how the text stands around their rows. Forward passes branch on these fields
// and never on a projector's name. Immutable once loaded; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/gguf/tensor_view.hpp"
#include "engine/media/picture.hpp"
#include "engine/media/sound.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::engine {

/// How merge x merge patches become one row. average: their mean, then an RMS norm. concatenate: one after
/// the other, by rows of the square.
enum class tower_merge { average, concatenate };

/// The text around a medium's rows, each row being one `token`. What is empty is not written.
struct picture_text {
  std::string placeholder;  ///< what templates write where a medium stands
  std::string token;
  std::string before = {}, after = {};  ///< of a picture with one view, and of a sound
  std::string part = "image";           ///< what lists of parts call a medium
  std::string tile_before = {};         ///< before each tile's rows: "{row}" and "{column}" count from 1
  std::string row_after = {};           ///< after each row of tiles
  std::string whole_before = {}, whole_after = {};  ///< around the view behind the tiles
};

struct tower_layer {
  tensor_view norm_1, norm_1_bias, norm_2, norm_2_bias;
  tensor_view q, q_bias, k, k_bias, v, v_bias;
  tensor_view out, out_bias;
  tensor_view up, up_bias, down, down_bias;
};

struct tower_weights {
  tensor_view patch, patch_bias;    ///< [width] rows of (channel, y, x)
  tensor_view conv_1, conv_1_bias;  ///< of sounds: [width] rows of (bin, frame), three frames each
  tensor_view conv_2, conv_2_bias;  ///< [width] rows of (channel, frame), likewise; every second place
  tensor_view positions;            ///< [patches of a view][width], added
  tensor_view post_norm, post_norm_bias;
  tensor_view merge_norm;    ///< tower_merge::average
  tensor_view projection;    ///< see tower_spec::transposed_projection
  tensor_view projection_2;  ///< of sounds: behind GELU's exact form of what `projection` gives
  std::vector<tower_layer> layers;
};

/// A transformer without a mask, with LayerNorms before its halves and after the last layer; between the two
/// matrices of its feed-forward is GELU. Of sounds two convolutions stand before it, each with GELU behind
/// it.
struct tower_spec {
  std::string projector;             ///< clip.projector_type, for display only
  std::string name;                  ///< general.name, or empty
  picture_rules pictures;            ///< where there is no `sound`
  std::optional<sound_rules> sound;  ///< then it takes sounds, and no pictures
  picture_text text;
  std::uint32_t width = 0;
  std::uint32_t heads = 0;  ///< of width / heads values each
  std::uint32_t ffn = 0;
  bool gelu_tanh = true;  ///< false: the exact form
  double eps = 1e-6;      ///< of all norms
  tower_merge merge = tower_merge::concatenate;
  bool transposed_projection = false;  ///< its rows are inputs
  std::uint32_t inner_width = 0;       ///< between the two matrices of a projection, of sounds
  std::uint32_t out_width = 0;         ///< of a row: the text model's
  /// Rows of one view see each other in the text model, those behind them too.
  bool rows_see_each_other = false;

  [[nodiscard]] std::uint32_t head_width() const noexcept { return width / heads; }
  /// Patches of the largest view; positions of a sound's chunk, which is its view.
  [[nodiscard]] std::uint32_t patches_max() const noexcept;
  /// Rows of the largest view, and of the picture with the most rows.
  [[nodiscard]] std::uint32_t view_rows_max() const noexcept;
  [[nodiscard]] std::uint32_t picture_rows_max() const noexcept;
};

/// Views in `weights` point into `file`; moving the struct keeps them valid.
struct tower {
  gguf_file file;
  tower_spec spec;
  tower_weights weights;
  std::string digest;  ///< which tower it is: the same text for the same file until that is written to
};

/// Opens a projector file and checks it against the model whose rows it makes. All problems are told in one
/// message. Errors: model_load_failed, param "mmproj".
[[nodiscard]] result<tower> open_tower(std::string_view location, const model_spec& text);
/// Of a file that is open; without `text` what depends on the model is not checked.
[[nodiscard]] result<tower> load_tower(gguf_file file, const model_spec* text);

/// "idefics3, gemma3": the projectors that are taken, for messages.
[[nodiscard]] std::string supported_projectors();

}  // namespace orcd::engine
