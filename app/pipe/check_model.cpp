#include "app/pipe/check_model.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "app/pipe/numbers.hpp"
#include "engine/base/plain_file.hpp"
#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/location.hpp"

namespace orcd::app {
namespace {

namespace fs = std::filesystem;
using engine::error;
using engine::result;

constexpr std::size_t rope_cache_bytes = 68;
constexpr std::size_t header_bytes = 256;

error refuse(std::string_view file, const std::string& text) {
  return {engine::errc::model_load_failed, std::string(file) + ": " + text, "model"};
}

std::uint64_t rounded_up(std::uint64_t width) noexcept {
  return (width + 127) / 128 * 128;
}

/// Compares one value after the other; keeps the first that differs.
class comparison {
 public:
  explicit comparison(std::string_view file) : file_(file) {}

  template <class T>
  void same(std::string_view field, T given, T found, const char* note = "") {
    if (given == found || wrong_) return;
    wrong_ = refuse(
        file_, std::string(field) + " is " + text_of(given) + ", but the file's is " + text_of(found) + note);
  }
  /// The SDK rounds widths up; who calls the program by hand has those that the file says.
  void width(std::string_view field, std::uint64_t given, std::uint64_t found) {
    if (given == found) return;
    same(field, given, rounded_up(found), " rounded up to a multiple of 128");
  }
  [[nodiscard]] result<void> done() const {
    if (wrong_) return *wrong_;
    return {};
  }

 private:
  std::string_view file_;
  std::optional<error> wrong_;
};

/// The numbers that the SDK gives to architectures which this engine computes; 3 and 7 are none of them.
bool is_of_type(std::uint32_t type, const engine::model_spec& spec) noexcept {
  const bool bitnet = spec.architecture.starts_with("bitnet");
  if (type == 1) return bitnet;
  if (type == 2) return !bitnet;
  return type >= 4 && type <= 6 && spec.architecture == "qwen3";
}

/// What is said of heads is of the layers that have some.
void compare_attention(comparison& all, const sdk_config& config, const engine::layer_spec& layer,
                       const engine::layer_weights& weights) {
  all.same("num_heads", config.num_heads, layer.heads);
  all.same("num_kv_heads", config.num_kv_heads, layer.kv_heads);
  all.same("head_dim", config.head_dim, layer.key_length);
  all.same("rope_theta", static_cast<float>(config.rope_theta), static_cast<float>(layer.rope.base));
  const bool bias =
      weights.attn_qkv_bias || weights.attn_q_bias || weights.attn_k_bias || weights.attn_v_bias;
  all.same("has_qkv_bias", config.has_qkv_bias, std::uint32_t{bias});
  all.same("has_attn_sub_norm", config.has_attn_sub_norm, std::uint32_t{bool{weights.attn_sub_norm}});
}

void compare_layers(comparison& all, const sdk_config& config, const engine::model& model) {
  for (std::size_t i = 0; i < model.spec.layers.size(); ++i) {
    const engine::layer_spec& layer = model.spec.layers[i];
    const engine::layer_weights& weights = model.weights.layers[i];
    if (layer.mixer == engine::mixer_kind::attention) compare_attention(all, config, layer, weights);
    if (layer.ffn == engine::ffn_kind::dense) {
      all.width("intermediate_dim", config.intermediate_dim, layer.ffn_size);
    }
    all.same("has_ffn_sub_norm", config.has_ffn_sub_norm, std::uint32_t{bool{weights.ffn_sub_norm}});
  }
}

/// As the file says it: some families have another number in its place, to the same end.
double written_eps(const engine::gguf_file& file, const engine::model_spec& spec) {
  const auto written = file.get_float(spec.architecture + ".attention.layer_norm_rms_epsilon", spec.rms_eps);
  return written ? *written : spec.rms_eps;
}

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

/// Magic and version of one of the SDK's small headers.
result<void> check_header(engine::byte_cursor& cursor, std::string_view magic, const std::string& name) {
  const auto word = cursor.read<std::uint32_t>("magic");
  std::array<char, 4> found{};
  std::memcpy(found.data(), &word, found.size());
  const std::string_view text(found.data(), found.size());
  if (text != magic) {
    return refuse(name, "magic is " + engine::in_quotes(text) + "; it must be '" + std::string(magic) + "'");
  }
  const auto version = cursor.read<std::uint32_t>("version");
  if (version == 1) return {};
  return refuse(name, "version is " + std::to_string(version) + "; it must be 1");
}

}  // namespace

result<void> check_model(const sdk_config& config, const engine::gguf_file& file,
                         const engine::model& model) {
  const engine::model_spec& spec = model.spec;
  if (spec.pooling) return refuse(file.location(), "the model makes embeddings or scores, and no tokens");
  const std::uint32_t header = file.header_architecture();
  if (!is_of_type(config.arch_type, spec) || (header != 0 && header != config.arch_type)) {
    return refuse(file.location(), "arch_type is " + std::to_string(config.arch_type) +
                                       ", but the file's architecture is " +
                                       engine::in_quotes(spec.architecture));
  }
  comparison all(file.location());
  const bool squared = spec.activation == engine::ffn_activation::relu_squared;
  all.same("activation", config.activation, squared ? 0U : 1U);
  all.width("hidden_dim", config.hidden_dim, spec.embedding);
  all.same("num_layers", std::size_t{config.num_layers}, spec.layers.size());
  all.same("vocab_size", config.vocab_size, spec.vocab);
  all.same("max_position_embeddings", config.max_position_embeddings, spec.context_length);
  all.same("norm_eps", static_cast<float>(config.norm_eps), static_cast<float>(written_eps(file, spec)));
  const bool tied = model.weights.output.data == model.weights.token_embd.data;
  all.same("tie_word_embeddings", config.tie_word_embeddings, std::uint32_t{tied});
  compare_layers(all, config, model);
  return all.done();
}

result<void> check_rope_cache(std::span<const std::byte> image, const std::string& name,
                              const sdk_config& config, const engine::rope_spec& rope) {
  engine::byte_cursor cursor(image, name);
  if (image.size() != rope_cache_bytes) {
    return refuse(name, "has " + std::to_string(image.size()) + " bytes; it must have 68");
  }
  if (auto good = check_header(cursor, "TRRC", name); !good) return good;
  comparison all(name);
  all.same("the number behind the version", 0U, cursor.read<std::uint32_t>("reserved"));
  all.same("max_position_embeddings", config.max_position_embeddings,
           cursor.read<std::uint32_t>("positions"));
  all.same("the number of rotated dimensions", rope.dims, cursor.read<std::uint32_t>("rotated dimensions"));
  all.same("rope_theta", config.rope_theta, cursor.read<double>("theta"));
  const bool scaled = rope.scaling != engine::rope_scaling::none;
  all.same("the YaRN factor", scaled ? rope.factor : 0.0, cursor.read<double>("factor"));
  all.same("the original context", scaled ? rope.original_context : config.max_position_embeddings,
           cursor.read<std::uint32_t>("original context"));
  const auto rest = cursor.take(cursor.remaining(), "zeros");
  const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (auto same = all.done(); !same || std::all_of(rest.begin(), rest.end(), zero)) return same;
  return refuse(name, "has something at its end; the last 28 bytes must be zero");
}

result<void> check_rope_file(const sdk_config& config, const engine::gguf_file& file,
                             const engine::rope_spec& rope) {
  if (file.header_architecture() == 0) return {};
  const auto where = engine::parse_location(file.location());
  if (!where) return where.error();
  if (where->where != engine::model_location::kind::path) return {};
  const fs::path path = fs::path(where->name).parent_path() / "rope.cache";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const auto image = engine::read_beginning(path.string(), rope_cache_bytes + 1);
  if (!image) return refuse(path.string(), image.error().message);
  return check_rope_cache(bytes_of(*image), path.string(), config, rope);
}

result<void> check_adapter_file(const std::string& path) {
  const auto image = engine::read_beginning(path, header_bytes + 4);
  if (!image) return refuse(path, image.error().message);
  engine::byte_cursor cursor(bytes_of(*image), path);
  if (auto good = check_header(cursor, "TRLA", path); !good) return good;
  if (image->size() == header_bytes + 4 && std::memcmp(image->data() + header_bytes, "GGUF", 4) == 0)
    return {};
  return refuse(path,
                "was written by another quantizer (byte 256 does not begin with GGUF); quantize the "
                "adapter again, with trillim-quantize");
}

}  // namespace orcd::app
