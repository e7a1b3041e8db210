// What a projector file holds, as data: the tower that turns pictures or sounds into rows of the text model's
// width, how it wants them, and how the text stands around their rows. Forward passes branch on these fields
// and never on a projector's name. Immutable once loaded; any thread.
#pragma once

#include <cstdint>
#include <limits>
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

/// How merge x merge patches become one row. average: their mean, then what merge_scale and the like say and
/// an RMS norm. concatenate: one after the other, by rows of the square.
enum class tower_merge { average, concatenate };

/// How a patch knows where it stands before the first layer. each: a row of tower_weights::positions for each
/// patch of a view, added. between: the rows are those of a grid over the whole view, whose corners are the
/// view's; a patch has what lies at its place, between four of them. by_side: a row for the patch's column
/// and, position_side rows behind it, one for its line are added. none: nothing is added.
enum class tower_positions { each, between, by_side, none };

/// How heads are turned by a patch's line and column. joined: of all pairs (i, i + half a head) the first
/// half by the line, the others by the column. parted: the first half of a head by the column and the second
/// one by the line, each in pairs of its own. adjacent: of all pairs (2i, 2i + 1) the first half by the line,
/// the others by the column, at rates that lie between those of the line.
enum class tower_rotation { none, joined, parted, adjacent };

/// The text around a medium's rows, each row being one `token`. What is empty is not written.
struct picture_text {
  std::string placeholder;  ///< what templates write where a medium stands
  std::string token;
  std::string before = {}, after = {};  ///< of a picture with one view, and of a sound
  std::string line_after = {};          ///< after each line of rows but the last; then `after` is a token
  std::string part = "image";           ///< what lists of parts call a medium
  std::string tile_before = {};         ///< before each tile's rows: "{row}" and "{column}" count from 1
  std::string row_after = {};           ///< after each row of tiles
  std::string whole_before = {}, whole_after = {};  ///< around the view behind the tiles
};

/// Two matrices with the exact GELU between them, of squares of patches, or positions of a sound, joined to
/// one row. `norm`: a LayerNorm of the joined row before them, where there is one.
struct tower_merger {
  tensor_view norm, norm_bias;
  tensor_view first, first_bias, second, second_bias;
};

struct value_range {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

struct tower_matrix {
  tensor_view weight, bias;
  /// Values beyond these become the nearest of them, of what is multiplied and of what that gives.
  std::optional<value_range> inputs, outputs;
};

struct tower_layer {
  tensor_view norm_1, norm_1_bias, norm_2, norm_2_bias;
  tensor_view post_norm_1, post_norm_2;  ///< tower_spec::post_norms
  tower_matrix qkv;                      ///< in one; else the three below
  tower_matrix q, k, v;
  tensor_view q_norm, k_norm;  ///< tower_spec::head_norms
  tower_matrix out;
  tower_matrix gate;  ///< of gated activations
  tower_matrix up, down;
  /// What comes out of the layer, as rows that the text model gets behind one of its layers.
  std::optional<tower_merger> deepstack;
};

struct tower_weights {
  tensor_view patch, patch_bias;    ///< [width] rows of (channel, y, x)
  tensor_view pre_norm;             ///< tower_spec::pre_norm
  tensor_view second_frame;         ///< tower_spec::two_frames: added to `patch`
  tensor_view conv_1, conv_1_bias;  ///< of sounds: [width] rows of (bin, frame), three frames each
  tensor_view conv_2, conv_2_bias;  ///< [width] rows of (channel, frame), likewise; every second place
  tensor_view positions;            ///< [places][width], see tower_positions
  tensor_view post_norm, post_norm_bias;
  tensor_view std_bias, std_scale;  ///< [width]: subtracted from what merges, and multiplied with it
  tensor_view merge_norm;           ///< tower_merge::average; without it the norm has no weights
  tensor_view projection;           ///< see tower_spec::transposed_projection; without it there is
  tensor_view reduction;            ///< tower_spec::reduces: [width] rows of (channel, y, x)
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
  ffn_activation activation = ffn_activation::gelu_tanh;  ///< that, gelu, gelu_sigmoid, swiglu or geglu_tanh
  bool names_activation = true;                           ///< the file says which it is
  bool post_norms = false;       ///< what a half gives has an RMS norm before it is added
  bool head_norms = false;       ///< RMS norms of each head's Q and K, and without weights of its V
  bool pre_norm = false;         ///< there is one before the first layer
  bool end_norm = true;          ///< and one behind the last
  bool clips = false;            ///< some matrices have limits of their inputs
  double attention_scale = 0.0;  ///< multiplies q.k; 0: 1 / sqrt(head_width)
  tower_positions positions = tower_positions::each;
  std::uint32_t position_side = 0;  ///< of the grid of rows (between), or how many a side has (by_side)
  tower_rotation rotation = tower_rotation::none;
  double rotation_base = 10'000.0;
  /// Not 0: patches see those of their own square of so many patches a side, except in each full_every-th
  /// layer. A multiple of pictures.merge.
  std::uint32_t window = 0;
  std::uint32_t full_every = 0;
  bool two_frames = false;  ///< patches are those of two frames of a film; a picture is both
  tower_merge merge = tower_merge::concatenate;
  double merge_scale = 1.0;            ///< of means
  bool transposed_projection = false;  ///< its rows are inputs
  std::uint32_t inner_width = 0;       ///< between the merger's matrices; 0: as wide as what is joined
  bool reduces = false;                ///< squares become rows as wide as the tower before the merger
  std::uint32_t out_width = 0;         ///< of a row: the text model's
  std::uint32_t deepstack = 0;         ///< parts behind it, of out_width values each
  /// Rows of one view see each other in the text model, those behind them too.
  bool rows_see_each_other = false;
  bool rows_see_by_model = false;  ///< that, but in models whose layers have inputs of their own
  bool rows_are_grid = false;      ///< the text model turns them by line and column (rope_axes)

  [[nodiscard]] std::uint32_t head_width() const noexcept { return width / heads; }
  /// Values of a row that squares of patches, or positions of a sound, are joined to.
  [[nodiscard]] std::uint64_t joined_width() const noexcept;
  [[nodiscard]] std::uint32_t row_width() const noexcept { return out_width * (1 + deepstack); }
  /// Patches of the largest view; positions of a sound's chunk, which is its view.
  [[nodiscard]] std::uint32_t patches_max() const noexcept;
  /// Rows of the largest view, and of the picture with the most rows.
  [[nodiscard]] std::uint32_t view_rows_max() const noexcept;
  [[nodiscard]] std::uint32_t picture_rows_max() const noexcept;
  /// Rows of a sound so long.
  [[nodiscard]] std::uint64_t sound_rows(std::uint32_t seconds) const noexcept;
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
