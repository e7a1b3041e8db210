#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/sha256.hpp"
#include "engine/gguf/byte_cursor.hpp"
#include "engine/media/log_mel.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/media/projector_table.hpp"
#include "engine/media/tower_tensors.hpp"

namespace orcd::engine {
namespace {

constexpr std::uint32_t side_max = 4'096;
constexpr std::uint32_t patch_max = 64;
/// A layer has at least this many tensors, so a file's size bounds the layers it can claim.
constexpr std::size_t fewest_layer_tensors = 8;

error as_mmproj(error why) {
  return {why.code, std::move(why.message), "mmproj"};
}

error no_projector(const gguf_file& file, std::string_view what) {
  return {errc::model_load_failed, std::string(file.location()) + ": " + std::string(what), "mmproj"};
}

std::string_view text_of(const gguf_file& file, std::string_view key) {
  const auto text = file.get_string(key, "");
  return text ? *text : std::string_view();
}

bool flag_of(const gguf_file& file, std::string_view key) {
  const auto flag = file.get_bool(key, false);
  return flag && *flag;
}

result<const projector_kind*> choose_kind(const gguf_file& file) {
  if (text_of(file, "general.architecture") != "clip") {
    return no_projector(file, "is no projector of images or sounds (general.architecture is " +
                                  in_quotes(text_of(file, "general.architecture")) + ", not 'clip')");
  }
  const bool sound = flag_of(file, "clip.has_audio_encoder");
  const bool pictures = flag_of(file, "clip.has_vision_encoder");
  if (!pictures && !sound) {
    return no_projector(file,
                        "neither key 'clip.has_vision_encoder' nor 'clip.has_audio_encoder' is true: it has "
                        "no tower of pictures or sounds");
  }
  std::string_view name = text_of(file, "clip.projector_type");
  if (name.empty())
    name = text_of(file, pictures ? "clip.vision.projector_type" : "clip.audio.projector_type");
  const auto kinds = projector_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const projector_kind& one) {
    return one.name == name && one.sounds != pictures;
  });
  if (pictures && sound && (kind == kinds.end() || !kind->leaves_sounds))
    return no_projector(file, "has a tower of sound beside its tower of pictures, which is not supported");
  if (name.empty()) return no_projector(file, "key 'clip.projector_type' is missing");
  if (kind != kinds.end()) return &*kind;
  return no_projector(
      file, "projector " + in_quotes(name) + " is not supported; supported are " + supported_projectors());
}

/// Three finite numbers; deviations are above 0.
void read_colours(hparam_reader& from, const char* key, bool positive, std::array<float, 3>& out) {
  const auto values = from.file().get_floats(from.full(key));
  const std::string name = "key '" + from.full(key) + "'";
  if (!values) return from.problems().add(name + " must be an array of numbers");
  if (values->size() != 3)
    return from.problems().add(name + " has " + std::to_string(values->size()) + " values; it must have 3");
  for (std::size_t i = 0; i < 3; ++i) {
    const float value = (*values)[i];
    if (std::isfinite(value) && (!positive || value > 0.0F)) {
      out[i] = value;
      continue;
    }
    return from.problems().add(name + " has the value " + std::to_string(value) +
                               (positive ? "; each must be above 0" : "; each must be finite"));
  }
}

void read_common_tower(hparam_reader& from, tower_spec& spec, double usual_eps) {
  using limits = hparam_limits;
  spec.width = from.count("embedding_length", 1, limits::embedding);
  spec.ffn = from.count("feed_forward_length", 1, limits::ffn);
  spec.heads = from.count("attention.head_count", 1, limits::heads);
  spec.eps = from.number("attention.layer_norm_epsilon", 1e-12, 1.0, usual_eps);
  spec.out_width = from.count("projection_dim", 1, limits::embedding);
  if (spec.width % spec.heads != 0 || spec.width / spec.heads > limits::head_dim) {
    from.problems().add("key '" + from.full("attention.head_count") + "' is " + std::to_string(spec.heads) +
                        "; it must divide the width of " + std::to_string(spec.width) +
                        " into heads of at most " + std::to_string(limits::head_dim));
    spec.heads = spec.width;
  }
}

void read_picture_rules(hparam_reader& from, tower_spec& spec) {
  picture_rules& pictures = spec.pictures;
  pictures.side = from.count("image_size", 1, side_max);
  pictures.patch = from.count("patch_size", 1, patch_max);
  if (pictures.side % pictures.patch != 0) {
    from.problems().add("key '" + from.full("image_size") + "' is " + std::to_string(pictures.side) +
                        "; it must be a multiple of the patch size, " + std::to_string(pictures.patch));
    pictures.side = pictures.patch;
  }
  read_colours(from, "image_mean", false, pictures.mean);
  read_colours(from, "image_std", true, pictures.deviation);
}

/// The kind has said which activation it was trained with; the file must say so, too: a file that names none
/// means gelu_sigmoid.
void check_activation(hparam_reader& from, const tower_spec& spec) {
  const auto& file = from.file();
  if (spec.activation == ffn_activation::gelu_sigmoid) {
    for (const char* const key : {"clip.use_gelu", "clip.use_silu"})
      if (flag_of(file, key))
        from.problems().add("key '" + std::string(key) +
                            "' is true: no such activation is supported for this projector");
    return;
  }
  const bool silu = spec.activation == ffn_activation::swiglu;
  const char* const wanted = silu ? "clip.use_silu" : "clip.use_gelu";
  const char* const other = silu ? "clip.use_gelu" : "clip.use_silu";
  if (flag_of(file, wanted) && !flag_of(file, other)) return;
  from.problems().add("key '" + std::string(wanted) +
                      "' is not true: no other activation is supported for this projector");
}

/// Which layers of the tower have a part for the text model. The tensors say it; a file's flags must agree.
void find_deepstack(hparam_reader& from, tower_spec& spec, std::vector<tower_layer>& layers) {
  constexpr std::string_view key = "is_deepstack_layers";
  std::vector<std::uint32_t> flags(layers.size());
  if (from.has(key)) flags = from.per_layer(key, static_cast<std::uint32_t>(layers.size()), 0, 1);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = "v.deepstack." + std::to_string(i) + ".fc1.weight";
    const bool there = from.file().find_tensor(name) != nullptr;
    if (there != (flags[i] != 0)) {
      from.problems().add("key '" + from.full(key) + "' is " + std::to_string(flags[i]) + " for layer " +
                          std::to_string(i) + ", but tensor '" + name +
                          (there ? "' is there" : "' is missing"));
    }
    if (!there) continue;
    layers[i].deepstack.emplace();
    ++spec.deepstack;
  }
}

/// Rows for columns, then as many for lines; the file alone says how many.
void bind_positions_by_side(const gguf_file& file, const std::string& name, tower_spec& spec,
                            tower_binder& bind, tower_weights& weights) {
  const tensor_view* const found = file.find_tensor(name);
  const std::uint64_t longest = std::uint64_t{spec.pictures.rows_max} * spec.pictures.merge;
  spec.position_side = static_cast<std::uint32_t>(
      found == nullptr ? longest : std::clamp<std::uint64_t>(found->extents[1], longest, 1U << 20U));
  bind.bind_kernel(weights.positions, name, spec.width, spec.position_side, 2);
  weights.positions.extents = {spec.width, 2ULL * spec.position_side, 1, 1};
}

void bind_tower(const gguf_file& file, const projector_kind& kind, tower_spec& spec, problem_list& problems,
                tower_weights& weights) {
  if (kind.sounds) return bind_sound_tower(file, spec, problems, weights);
  tower_binder bind(file, problems);
  const picture_rules& pictures = spec.pictures;
  const std::uint64_t side = pictures.side / pictures.patch;
  const std::uint64_t patch = 3ULL * pictures.patch * pictures.patch;
  bind.bind(weights.patch, "v.patch_embd.weight", patch, spec.width);
  if (spec.two_frames) bind.bind(weights.second_frame, "v.patch_embd.weight.1", patch, spec.width);
  bind.bind(weights.patch_bias, "v.patch_embd.bias", spec.width, 0, false);
  constexpr const char* positions = "v.position_embd.weight";
  if (spec.positions == tower_positions::by_side)
    bind_positions_by_side(file, positions, spec, bind, weights);
  else if (spec.positions != tower_positions::none)
    bind.bind(weights.positions, positions, spec.width, side * side);
  if (spec.end_norm)
    bind.bind(weights.post_norm, spec.reduces ? "mm.input_norm.weight" : "v.post_ln.weight", spec.width, 0);
  if (spec.norm == norm_kind::layer) bind.bind(weights.post_norm_bias, "v.post_ln.bias", spec.width, 0);
  bind.bind(weights.std_bias, "v.std_bias", spec.width, 0, file.find_tensor("v.std_scale") != nullptr);
  bind.bind(weights.std_scale, "v.std_scale", spec.width, 0, file.find_tensor("v.std_bias") != nullptr);
  const std::uint64_t in = spec.merge == tower_merge::concatenate ? spec.joined_width() : spec.width;
  if (spec.pre_norm) bind.bind(weights.pre_norm, "v.pre_ln.weight", spec.width, 0);
  if (spec.reduces) bind.bind(weights.reduction, "mm.patch_merger.weight", in, spec.width);
  if (kind.projection == nullptr)
    bind_tower_merger(spec, bind, kind.merger, "mm.2", weights.merger, spec.inner_width);
  else if (spec.transposed_projection)
    bind.bind(weights.projection, kind.projection, spec.out_width, in);
  else
    bind.bind(weights.projection, kind.projection, in, spec.out_width);
  if (kind.merge_norm != nullptr) bind.bind(weights.merge_norm, kind.merge_norm, spec.width, 0);
  bind_tower_layers("v.blk.", file, spec, bind, weights);
}

/// How rows of pictures are turned and what is added to them in the text model must come from the same model.
void check_rows(hparam_reader& from, const tower_spec& spec, const model_spec& text) {
  const bool grid = std::any_of(text.layers.begin(), text.layers.end(),
                                [](const layer_spec& layer) { return layer.rope.axes != rope_axes::one; });
  if (spec.rows_are_grid != grid) {
    from.problems().add(
        grid ? "the model turns rows of pictures by line and column, which those of this projector "
               "do not have"
             : "rows of this projector have lines and columns, but the model turns heads by one "
               "position");
  }
  if (spec.deepstack != text.deepstack_layers) {
    from.problems().add("the projector has " + std::to_string(spec.deepstack) +
                        " parts for layers of the model, which takes " +
                        std::to_string(text.deepstack_layers));
  }
}

/// What the tower makes must be what the model takes.
void check_text_model(hparam_reader& from, const tower_spec& spec, const model_spec& text) {
  const auto add = [&](std::string what) { from.problems().add(std::move(what)); };
  if (spec.out_width != text.embedding) {
    add("key '" + from.full("projection_dim") + "' is " + std::to_string(spec.out_width) +
        ", but the model's width is " + std::to_string(text.embedding));
  }
  const std::string nothing = spec.sound ? "takes no sounds" : "takes no pictures";
  if (text.pooling) add("the model embeds or ranks texts, and " + nothing);
  if (text.norms != norm_placement::before || !text.causal) add("the model is an encoder, and " + nothing);
  check_rows(from, spec, text);
  if (!spec.rows_see_each_other) return;
  for (const layer_spec& layer : text.layers) {
    if (layer.window == 0 || layer.window >= spec.view_rows_max()) continue;
    return add("a picture's " + std::to_string(spec.view_rows_max()) +
               " rows see each other, but the model's window is " + std::to_string(layer.window));
  }
}

/// The layers that are run, bounded by what the file can hold.
std::uint32_t count_layers(hparam_reader& from) {
  const std::uint32_t layers = from.count("block_count", 1, hparam_limits::layers);
  if (layers <= from.file().tensors().size() / fewest_layer_tensors) return layers;
  from.problems().add("key '" + from.full("block_count") + "' is " + std::to_string(layers) +
                      ", but the file's " + std::to_string(from.file().tensors().size()) +
                      " tensors cannot make that many layers");
  return 0;
}

std::string digest_of(const gguf_file& file, const tower_spec& spec) {
  sha256 digest;
  digest.update(spec.projector + "\n" + std::to_string(file.file_bytes()) + "\n" + file.identity() + "\n");
  for (const tensor_view& tensor : file.tensors()) digest.update(std::string(tensor.name) + "\n");
  return digest.finish();
}

}  // namespace

std::uint64_t tower_spec::joined_width() const noexcept {
  return std::uint64_t{width} * (sound ? sound->stack : pictures.merge * pictures.merge);
}

std::uint32_t tower_spec::patches_max() const noexcept {
  if (sound) return chunk_frames / 2;
  return view_rows_max() * pictures.merge * pictures.merge;
}

std::uint32_t tower_spec::view_rows_max() const noexcept {
  if (sound) return chunk_frames / 2 / sound->stack;
  if (pictures.layout == picture_layout::budget) return pictures.rows_max;
  if (pictures.layout == picture_layout::bounded) {
    const std::uint32_t squares = (pictures.longest + pictures.factor - 1) / pictures.factor;
    return squares * squares;
  }
  if (pictures.layout == picture_layout::multiples)
    return static_cast<std::uint32_t>(pictures.pixels_max / pictures.factor / pictures.factor);
  const std::uint32_t side = pictures.side / pictures.patch / pictures.merge;
  return side * side;
}

std::uint32_t tower_spec::picture_rows_max() const noexcept {
  if (sound || pictures.layout != picture_layout::tiles) return view_rows_max();
  const std::uint32_t tiles = (pictures.longest + pictures.side - 1) / pictures.side;
  return (tiles * tiles + 1) * view_rows_max();
}

std::uint64_t tower_spec::sound_rows(std::uint32_t seconds) const noexcept {
  return std::uint64_t{chunks_of(std::uint64_t{seconds} * sound_rate)} * view_rows_max();
}

void limit_rows(tower_spec& spec, std::uint32_t rows) noexcept {
  if (spec.pictures.layout == picture_layout::budget)
    spec.pictures.rows_max = picture_budget(std::min(rows, spec.pictures.rows_max));
  if (spec.pictures.layout == picture_layout::bounded) {
    const std::uint32_t most = bounded_longest(rows, spec.pictures.factor);
    spec.pictures.longest = std::min(spec.pictures.longest, most);
  }
  if (spec.pictures.layout != picture_layout::multiples) return;
  const std::uint64_t row_pixels = std::uint64_t{spec.pictures.factor} * spec.pictures.factor;
  spec.pictures.pixels_max = std::max(std::min(spec.pictures.pixels_max, rows * row_pixels), row_pixels);
  spec.pictures.pixels_min = std::min(spec.pictures.pixels_min, spec.pictures.pixels_max);
}

std::string supported_projectors() {
  std::string out;
  for (const projector_kind& kind : projector_kinds()) out.append(out.empty() ? "" : ", ").append(kind.name);
  return out;
}

result<tower> load_tower(gguf_file file, const model_spec* text) {
  const auto kind = choose_kind(file);
  if (!kind) return kind.error();
  problem_list problems("the projector", "mmproj");
  const bool sounds = (*kind)->sounds;
  hparam_reader from(file, sounds ? "clip.audio" : "clip.vision", problems);
  tower_spec spec;
  tower_weights weights;
  spec.projector = (*kind)->name;
  spec.name = text_of(file, "general.name");
  read_common_tower(from, spec, sounds ? 1e-5 : 1e-6);
  if (!sounds) read_picture_rules(from, spec);
  (*kind)->read(from, spec);
  if (!sounds && spec.names_activation) check_activation(from, spec);
  if (text != nullptr && spec.rows_see_by_model) spec.rows_see_each_other = text->layer_inputs == 0;
  weights.layers.resize(count_layers(from));
  if (!sounds) find_deepstack(from, spec, weights.layers);
  if (problems.empty()) bind_tower(file, **kind, spec, problems, weights);
  if (text != nullptr && problems.empty()) check_text_model(from, spec, *text);
  if (!problems.empty()) return problems.to_error(file.location());
  std::string digest = digest_of(file, spec);
  return tower{std::move(file), std::move(spec), std::move(weights), std::move(digest)};
}

result<tower> open_tower(std::string_view location, const model_spec& text) {
  auto file = gguf_file::open(location);
  if (!file) return as_mmproj(file.error());
  return load_tower(std::move(*file), &text);
}

}  // namespace orcd::engine
