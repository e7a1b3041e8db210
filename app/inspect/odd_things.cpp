#include "app/inspect/odd_things.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "app/inspect/inspect.hpp"
#include "engine/model/model_tensors.hpp"
#include "engine/text/utf8_buffer.hpp"

namespace orcd::app {
namespace {

using engine::ggml_type;
using engine::gguf_file;
using engine::tensor_view;

constexpr std::uint32_t usual_alignment = 32;
constexpr std::size_t names_told = 3;
/// Entries of a folder that are looked at.
constexpr std::size_t folder_entries_max = 10'000;

bool is_unquantized(ggml_type type) {
  return type == ggml_type::f32 || type == ggml_type::f16 || type == ggml_type::bf16;
}

/// "a, b, c and 4 more".
std::string some_of(const std::vector<std::string_view>& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), names_told); ++i)
    out += (i == 0 ? "" : ", ") + engine::valid_utf8(names[i]);
  if (names.size() > names_told) out += " and " + std::to_string(names.size() - names_told) + " more";
  return out;
}

std::string text_of(const gguf_file& file, std::string_view key) {
  const auto text = file.get_string(key, "");
  return text ? engine::valid_utf8(text->substr(0, 80)) : std::string();
}

void add_importance(const gguf_file& file, std::vector<std::string>& out) {
  if (file.find("quantize.imatrix.file") == nullptr) return;
  out.push_back("it was quantized with an importance matrix: " + text_of(file, "quantize.imatrix.file"));
}

/// Matrices that a quantizer left as they were cost what they weigh at every token.
void add_unquantized(const gguf_file& file, std::vector<std::string>& out) {
  std::vector<std::string_view> names;
  std::uint64_t bytes = 0;
  bool quantized = false;
  for (const tensor_view& tensor : file.tensors()) {
    if (tensor.dims < 2 || tensor.rows() < 2) continue;
    quantized = quantized || !is_unquantized(tensor.type);
    if (!is_unquantized(tensor.type) || tensor.bytes < file.tensor_bytes() / 100) continue;
    names.push_back(tensor.name);
    bytes += tensor.bytes;
  }
  if (!quantized || names.empty()) return;
  out.push_back("matrices of 16 or 32 bits beside quantized ones, " +
                std::to_string(100 * bytes / file.tensor_bytes()) + " % of its bytes: " + some_of(names));
}

void add_arrays(const gguf_file& file, std::vector<std::string>& out) {
  constexpr std::array<std::string_view, 5> of_layers{
      ".attention.head_count", ".attention.head_count_kv", ".feed_forward_length",
      ".attention.sliding_window_pattern", ".attention.recurrent_layers"};
  std::vector<std::string_view> names;
  for (const auto& entry : file.entries()) {
    const bool told = std::any_of(of_layers.begin(), of_layers.end(),
                                  [&](std::string_view end) { return entry.key.ends_with(end); });
    if (told && std::holds_alternative<engine::gguf_array>(entry.value.value)) names.push_back(entry.key);
  }
  if (!names.empty()) out.push_back("its layers differ, by arrays of a value for each: " + some_of(names));
}

std::string layers_with_states(const engine::model_spec& spec) {
  if (!spec.is_recurrent()) return {};
  std::size_t states = 0, convolutions = 0, attend = 0;
  for (const engine::layer_spec& layer : spec.layers) {
    states += engine::has_state(layer.mixer) ? 1U : 0U;
    convolutions += layer.mixer == engine::mixer_kind::short_conv ? 1U : 0U;
    attend += layer.mixer == engine::mixer_kind::attention ? 1U : 0U;
  }
  return std::to_string(attend) + " of its layers attend, " + std::to_string(states) +
         " have a recurrent state, " + std::to_string(convolutions) + " a short convolution";
}

std::string stretched_positions(const engine::model_spec& spec) {
  const auto stretched =
      std::find_if(spec.layers.begin(), spec.layers.end(), [](const engine::layer_spec& layer) {
        return layer.rope.scaling == engine::rope_scaling::yarn ||
               layer.rope.scaling == engine::rope_scaling::longrope;
      });
  if (stretched == spec.layers.end()) return {};
  return std::string("its positions are stretched (") +
         (stretched->rope.scaling == engine::rope_scaling::yarn ? "YaRN" : "LongRoPE") + "), from " +
         grouped(stretched->rope.original_context) + " to " + grouped(spec.context_length);
}

}  // namespace

std::vector<std::string> odd_in_file(const gguf_file& file) {
  std::vector<std::string> out;
  if (file.parts().size() > 1)
    out.push_back("it is split into " + std::to_string(file.parts().size()) + " parts");
  if (file.alignment() != usual_alignment)
    out.push_back("its tensors are aligned to " + std::to_string(file.alignment()) + " bytes, not to 32");
  add_importance(file, out);
  add_unquantized(file, out);
  add_arrays(file, out);
  return out;
}

std::vector<std::string> odd_in_model(const gguf_file& file, const engine::model& m) {
  std::vector<std::string> out;
  std::set<std::string_view> used;
  engine::for_each_tensor(m.weights, [&](const tensor_view& tensor) { used.insert(tensor.name); });
  // A matrix's scale in a tensor of its own has become the view's factor.
  const auto is_used = [&](std::string_view name) {
    constexpr std::string_view scale = ".scale";
    if (used.contains(name)) return true;
    if (!name.ends_with(scale)) return false;
    return used.contains(std::string(name.substr(0, name.size() - scale.size())) + ".weight");
  };
  std::vector<std::string_view> unused;
  for (const tensor_view& tensor : file.tensors()) {
    if (!is_used(tensor.name)) unused.push_back(tensor.name);
  }
  if (!unused.empty()) out.push_back("tensors that nothing uses: " + some_of(unused));
  if (m.weights.output.data == m.weights.token_embd.data && !m.spec.pooling)
    out.emplace_back("the embedding is the output head, too");
  if (m.spec.embedding_before != 0 || m.spec.ffn_before != 0)
    out.emplace_back("its widths were padded with zeros by a converter");
  if (m.spec.predicting_layers > 0)
    out.push_back("its last " + std::to_string(m.spec.predicting_layers) +
                  " layer(s) predict further tokens (multi-token prediction), and are not loaded");
  if (std::string text = layers_with_states(m.spec); !text.empty()) out.push_back(std::move(text));
  if (std::string text = stretched_positions(m.spec); !text.empty()) out.push_back(std::move(text));
  return out;
}

std::vector<std::string> odd_in_tokenizer(const gguf_file& file, const engine::tokenizer& vocabulary,
                                          const engine::model_spec& spec) {
  std::vector<std::string> out;
  if (vocabulary.vocab_size() < spec.vocab) {
    out.push_back(grouped(spec.vocab - vocabulary.vocab_size()) +
                  " rows of its vocabulary are padding and are never chosen");
  }
  const bool own = vocabulary.kind().starts_with("gguf");
  if (own && file.find("tokenizer.ggml.token_type") == nullptr)
    out.emplace_back("its tokens have no types, so that none of them counts as a control token");
  if (vocabulary.end_of_generation().empty() && !spec.pooling)
    out.emplace_back("no token ends an answer: each goes on to its max_tokens");
  return out;
}

std::optional<std::string> projector_beside(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::directory_iterator at(folder.empty() ? "." : folder, ignored);
  for (std::size_t i = 0; i < folder_entries_max && !ignored && at != std::filesystem::directory_iterator();
       ++i) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".gguf") && name.find("mmproj") != std::string::npos) return engine::valid_utf8(name);
    at.increment(ignored);
  }
  return std::nullopt;
}

}  // namespace orcd::app
