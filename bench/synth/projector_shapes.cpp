#include "bench/synth/projector_shapes.hpp"

#include <array>

#include "bench/synth/tensor_list.hpp"

namespace orcd::bench {
namespace {

using engine::ggml_type;

/// Which tensors lie between the tower and the text model's rows.
enum class joint { qwen, gemma, pixtral, voxtral, idefics };

struct projector_shape {
  const char* name;
  const char* type;  ///< clip.projector_type
  joint kind;
  std::uint64_t width = 0, ffn = 0, layers = 0, heads = 0, out = 0;
  std::uint64_t image = 0, patch = 0;  ///< sides in pixels
  std::uint64_t merge = 1;             ///< patches of a row's side; of a sound positions of a row
  std::uint64_t longest = 0;           ///< pixels of a picture's longer side before it is cut into tiles
  std::uint64_t bins = 0;              ///< of a sound's frame; 0: it takes pictures
  std::uint64_t deepstack_every = 0;   ///< those layers have a part for the text model
  std::array<float, 3> mean{0.5F, 0.5F, 0.5F}, deviation{0.5F, 0.5F, 0.5F};
  float eps = 1e-6F;

  [[nodiscard]] bool sounds() const { return bins > 0; }
  /// RMS norms and gated feed-forwards, and no biases.
  [[nodiscard]] bool gated() const { return kind == joint::pixtral; }
  [[nodiscard]] bool has_deepstack(std::uint64_t layer) const {
    return deepstack_every > 0 && layer > 0 && layer < layers && layer % deepstack_every == 0;
  }
};

constexpr projector_shape shapes[]{
    {.name = "mmproj-qwen3-vl-8b",
     .type = "qwen3vl_merger",
     .kind = joint::qwen,
     .width = 1152,
     .ffn = 4304,
     .layers = 27,
     .heads = 16,
     .out = 4096,
     .image = 768,
     .patch = 16,
     .merge = 2,
     .deepstack_every = 8},
    {.name = "mmproj-gemma-3",
     .type = "gemma3",
     .kind = joint::gemma,
     .width = 1152,
     .ffn = 4304,
     .layers = 27,
     .heads = 16,
     .out = 3840,
     .image = 896,
     .patch = 14,
     .merge = 4},
    {.name = "mmproj-pixtral",
     .type = "pixtral",
     .kind = joint::pixtral,
     .width = 1024,
     .ffn = 4096,
     .layers = 24,
     .heads = 16,
     .out = 5120,
     .image = 1540,
     .patch = 14,
     .merge = 2,
     .mean = {0.48145466F, 0.4578275F, 0.40821073F},
     .deviation = {0.26862954F, 0.26130258F, 0.27577711F},
     .eps = 1e-5F},
    {.name = "mmproj-voxtral",
     .type = "voxtral",
     .kind = joint::voxtral,
     .width = 1280,
     .ffn = 5120,
     .layers = 32,
     .heads = 20,
     .out = 3072,
     .merge = 4,
     .bins = 128,
     .eps = 1e-5F},
    {.name = "mmproj-smolvlm-256m",
     .type = "idefics3",
     .kind = joint::idefics,
     .width = 768,
     .ffn = 3072,
     .layers = 12,
     .heads = 12,
     .out = 576,
     .image = 512,
     .patch = 16,
     .merge = 4,
     .longest = 2048},
};

class planner : tensor_list {
 public:
  planner(const projector_shape& s, std::uint64_t layers)
      : tensor_list(s.sounds() ? "clip.audio" : "clip.vision"), s_(s), layers_(layers) {}

  planned_model plan() {
    add_metadata();
    if (s_.sounds())
      add_sound_input();
    else
      add_picture_input();
    for (std::uint64_t layer = 0; layer < layers_; ++layer) add_layer(layer);
    add_joint();
    return std::move(out_);
  }

 private:
  void add_metadata() {
    constexpr std::uint32_t mostly_f16 = 1;
    out_.header.add("general.architecture", std::string("clip"));
    out_.header.add("general.type", std::string("mmproj"));
    out_.header.add("general.name", std::string(s_.name) + " with random weights");
    out_.header.add("general.file_type", mostly_f16);
    out_.header.add("clip.projector_type", std::string(s_.type));
    out_.header.add(s_.sounds() ? "clip.has_audio_encoder" : "clip.has_vision_encoder", true);
    out_.header.add(s_.gated() ? "clip.use_silu" : "clip.use_gelu", true);
    number("block_count", layers_);
    number("embedding_length", s_.width);
    number("feed_forward_length", s_.ffn);
    number("attention.head_count", s_.heads);
    number("projection_dim", s_.out);
    key("attention.layer_norm_epsilon", s_.eps);
    if (s_.sounds()) {
      number("num_mel_bins", s_.bins);
      return number("projector.stack_factor", s_.merge);
    }
    number("image_size", s_.image);
    number("patch_size", s_.patch);
    key("image_mean", std::vector<float>(s_.mean.begin(), s_.mean.end()));
    key("image_std", std::vector<float>(s_.deviation.begin(), s_.deviation.end()));
    const bool any_size = s_.kind == joint::qwen || s_.kind == joint::pixtral;
    number(any_size ? "spatial_merge_size" : "projector.scale_factor", s_.merge);
    if (s_.longest > 0) number("preproc_image_size", s_.longest);
    if (s_.deepstack_every == 0) return;
    std::vector<bool> flags;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) flags.push_back(s_.has_deepstack(layer));
    key("is_deepstack_layers", flags);
  }

  void half(const std::string& name, std::vector<std::uint64_t> extents) {
    matrix(name + ".weight", std::move(extents), ggml_type::f16);
  }
  void bias(const std::string& name, std::uint64_t width) { vector(name + ".bias", {width}, 0.0F); }
  void biased(const std::string& name, std::uint64_t cols, std::uint64_t rows) {
    half(name, {cols, rows});
    if (!s_.gated()) bias(name, rows);
  }
  void norm(const std::string& name, std::uint64_t width) {
    vector(name + ".weight", {width}, 1.0F);
    if (!s_.gated()) bias(name, width);
  }

  void add_picture_input() {
    half("v.patch_embd", {s_.patch, s_.patch, 3, s_.width});
    if (s_.kind == joint::qwen)
      matrix("v.patch_embd.weight.1", {s_.patch, s_.patch, 3, s_.width}, ggml_type::f16);
    if (s_.gated()) return norm("v.pre_ln", s_.width);
    const std::uint64_t side = s_.image / s_.patch;
    bias("v.patch_embd", s_.width);
    vector("v.position_embd.weight", {s_.width, side * side}, 0.0F);
    norm("v.post_ln", s_.width);
  }

  void add_sound_input() {
    constexpr std::uint64_t taps = 3, positions = 1500;
    half("a.conv1d.1", {taps, s_.bins, s_.width});
    bias("a.conv1d.1", s_.width);
    half("a.conv1d.2", {taps, s_.width, s_.width});
    bias("a.conv1d.2", s_.width);
    vector("a.position_embd.weight", {s_.width, positions}, 0.0F);
    norm("a.post_ln", s_.width);
  }

  void add_layer(std::uint64_t layer) {
    const std::string at = (s_.sounds() ? "a.blk." : "v.blk.") + std::to_string(layer) + ".";
    norm(at + "ln1", s_.width);
    norm(at + "ln2", s_.width);
    if (s_.kind == joint::qwen) {
      biased(at + "attn_qkv", s_.width, 3 * s_.width);
    } else {
      biased(at + "attn_q", s_.width, s_.width);
      half(at + "attn_k", {s_.width, s_.width});
      if (!s_.gated() && !s_.sounds()) bias(at + "attn_k", s_.width);
      biased(at + "attn_v", s_.width, s_.width);
    }
    biased(at + "attn_out", s_.width, s_.width);
    if (s_.gated()) biased(at + "ffn_gate", s_.width, s_.ffn);
    biased(at + "ffn_up", s_.width, s_.ffn);
    biased(at + "ffn_down", s_.ffn, s_.width);
    if (!s_.has_deepstack(layer)) return;
    const std::string part = "v.deepstack." + std::to_string(layer) + ".";
    norm(part + "norm", joined());
    biased(part + "fc1", joined(), joined());
    biased(part + "fc2", joined(), s_.out);
  }

  void add_joint() {
    switch (s_.kind) {
      case joint::qwen: biased("mm.0", joined(), joined()); return biased("mm.2", joined(), s_.out);
      case joint::gemma:
        half("mm.input_projection", {s_.out, s_.width});
        return vector("mm.soft_emb_norm.weight", {s_.width}, 1.0F);
      case joint::pixtral:
        norm("mm.input_norm", s_.width);
        half("mm.patch_merger", {joined(), s_.width});
        half("v.token_embd.img_break", {s_.out});
        half("mm.1", {s_.width, s_.out});
        return half("mm.2", {s_.out, s_.out});
      case joint::voxtral:
        half("mm.a.mlp.1", {joined(), s_.out});
        return half("mm.a.mlp.2", {s_.out, s_.out});
      case joint::idefics: return half("mm.model.fc", {joined(), s_.out});
    }
  }

  /// Values of a square of patches, or of a sound's positions, that become a row.
  [[nodiscard]] std::uint64_t joined() const { return s_.width * s_.merge * (s_.sounds() ? 1 : s_.merge); }

  const projector_shape& s_;
  std::uint64_t layers_;
};

}  // namespace

std::optional<engine::result<planned_model>> plan_projector(const model_choice& choice) {
  for (const projector_shape& s : shapes) {
    if (choice.model != s.name) continue;
    if (choice.vocab || choice.type) {
      return engine::error(engine::errc::invalid_request,
                           choice.model + " is a projector: it has no vocabulary, and its matrices are F16");
    }
    const auto layers = layers_of(choice, s.layers);
    if (!layers) return layers.error();
    return planner(s, *layers).plan();
  }
  return std::nullopt;
}

std::string projector_names() {
  return names_of(shapes);
}

}  // namespace orcd::bench
