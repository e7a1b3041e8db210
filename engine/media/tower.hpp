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

/// How a patch knows where it stands before the first layer. each: a row of tower_weights::positions for each
/// patch of a view, added. between: the rows are those of a grid over the whole view, whose corners are the
/// view's; a patch has what lies at its place, between four of them. none: nothing is added.
enum class tower_positions { each, between, none };

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

/// Two matrices with the exact GELU between them, of squares of patches, or positions of a sound, joined to
/// one row. `norm`: a
/// LayerNorm of the joined row before them, where there is one.
struct tower_merger {
  tensor_view norm, norm_bias;
  tensor_view first, first_bias, second, second_bias;
};

struct tower_layer {
  tensor_view norm_1, norm_1_bias, norm_2, norm_2_bias;
  tensor_view qkv, qkv_bias;  ///< in one; else the three below
  tensor_view q, q_bias, k, k_bias, v, v_bias;
  tensor_view out, out_bias;
  tensor_view gate, gate_bias;  ///< of gated activations
  tensor_view up, up_bias, down, down_bias;
  /// What comes out of the layer, as rows that the text model gets behind one of its layers.
  std::optional<tower_merger> deepstack;
};

struct tower_weights {
  tensor_view patch, patch_bias;    ///< [width] rows of (channel, y, x)
  tensor_view second_frame;         ///< tower_spec::two_frames: added to `patch`
  tensor_view conv_1, conv_1_bias;  ///< of sounds: [width] rows of (bin, frame), three frames each
  tensor_view conv_2, conv_2_bias;  ///< [width] rows of (channel, frame), likewise; every second place
  tensor_view positions;            ///< [places][width], see tower_positions
  tensor_view post_norm, post_norm_bias;
  tensor_view merge_norm;  ///< tower_merge::average
  tensor_view projection;  ///< see tower_spec::transposed_projection; without it there is
  tower_merger merger;
  std::vector<tower_layer> layers;
};

/// A transformer without a mask, with norms before its halves and after the last layer. Of sounds two
/// convolutions stand before it, each with the exact GELU behind it.
struct tower_spec {
  std::string projector;             ///< clip.projector_type, for display only
  std::string name;                  ///< general.name, or empty
  picture_rules pictures;            ///< where there is no `sound`
  std::optional<sound_rules> sound;  ///< then it takes sounds, and no pictures
  picture_text text;
  std::uint32_t width = 0;
  std::uint32_t heads = 0;  ///< of width / heads values each
  std::uint32_t ffn = 0;
  double eps = 1e-6;  ///< of all norms
  norm_kind norm = norm_kind::layer;
  ffn_activation activation = ffn_activation::gelu_tanh;  ///< that, gelu or swiglu
  tower_positions positions = tower_positions::each;
  std::uint32_t position_side = 0;  ///< tower_positions::between: of the grid of rows
  /// Heads are turned by the patch's line in the first half of their pairs, by its column in the second.
  bool rotates = false;
  /// Not 0: patches see those of their own square of so many patches a side, except in each full_every-th
  /// layer. A multiple of pictures.merge.
  std::uint32_t window = 0;
  std::uint32_t full_every = 0;
  bool two_frames = false;  ///< patches are those of two frames of a film; a picture is both
  tower_merge merge = tower_merge::concatenate;
  bool transposed_projection = false;  ///< its rows are inputs
  std::uint32_t inner_width = 0;       ///< of sounds: between the matrices of the merger
  std::uint32_t out_width = 0;         ///< of a row: the text model's
  std::uint32_t deepstack = 0;         ///< parts behind it, of out_width values each
  /// Rows of one view see each other in the text model, those behind them too.
  bool rows_see_each_other = false;
  bool rows_are_grid = false;  ///< the text model turns them by line and column (rope_axes)

  [[nodiscard]] std::uint32_t head_width() const noexcept { return width / heads; }
  /// Values of a row that squares of patches, or positions of a sound, are joined to.
  [[nodiscard]] std::uint64_t joined_width() const noexcept;
  [[nodiscard]] std::uint32_t row_width() const noexcept { return out_width * (1 + deepstack); }
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

/// Views of any size get no more rows than so many, or than one line has.
void limit_rows(tower_spec& spec, std::uint32_t rows) noexcept;

/// Opens a projector file and checks it against the model whose rows it makes. All problems are told in one
/// message. Errors: model_load_failed, param "mmproj".
[[nodiscard]] result<tower> open_tower(std::string_view location, const model_spec& text);
/// Of a file that is open; without `text` what depends on the model is not checked.
[[nodiscard]] result<tower> load_tower(gguf_file file, const model_spec* text);

/// "idefics3, gemma3": the projectors that are taken, for messages.
[[nodiscard]] std::string supported_projectors();

}  // namespace orcd::engine
