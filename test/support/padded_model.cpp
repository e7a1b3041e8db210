#include "test/support/padded_model.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace orcd::test {
namespace {

enum class width { other, embedding, ffn };
struct shape_rule {
  std::string_view ending;
  width cols;
  width rows = width::other;
};
constexpr std::array rules{shape_rule{"token_embd.weight", width::embedding},
                           shape_rule{"output_norm.weight", width::embedding},
                           shape_rule{"attn_output.weight", width::other, width::embedding},
                           shape_rule{"attn_output.bias", width::embedding},
                           shape_rule{"output.weight", width::embedding},
                           shape_rule{"attn_norm.weight", width::embedding},
                           shape_rule{"ffn_norm.weight", width::embedding},
                           shape_rule{"attn_q.weight", width::embedding},
                           shape_rule{"attn_k.weight", width::embedding},
                           shape_rule{"attn_v.weight", width::embedding},
                           shape_rule{"ffn_gate.weight", width::embedding, width::ffn},
                           shape_rule{"ffn_up.weight", width::embedding, width::ffn},
                           shape_rule{"ffn_gate.bias", width::ffn},
                           shape_rule{"ffn_up.bias", width::ffn},
                           shape_rule{"ffn_down.weight", width::ffn, width::embedding},
                           shape_rule{"ffn_down.bias", width::embedding},
                           shape_rule{"ffn_sub_norm.weight", width::ffn}};

struct widths {
  std::uint64_t embedding, ffn;
  [[nodiscard]] std::uint64_t of(width which, std::uint64_t before) const {
    if (which == width::other) return before;
    const std::uint64_t out = which == width::embedding ? embedding : ffn;
    if (out < before) throw std::invalid_argument("a padded width is less than before");
    return out;
  }
};

void pad(written_tensor& tensor, std::uint64_t cols, std::uint64_t rows) {
  const auto type = static_cast<engine::ggml_type>(tensor.type);
  const auto& traits = engine::traits_of(type);
  if (cols % traits.block_elems != 0 || tensor.extents[0] % traits.block_elems != 0) {
    throw std::invalid_argument("a width is not of whole blocks");
  }
  const std::uint64_t from = engine::row_bytes(traits, tensor.extents[0]);
  const std::uint64_t to = engine::row_bytes(traits, cols);
  const std::uint64_t before = tensor.extents.size() > 1 ? tensor.extents[1] : 1;
  const auto zero = type == engine::ggml_type::i2_s ? std::byte{0x55} : std::byte{0};
  bytes out(rows * to, zero);
  for (std::uint64_t row = 0; row < before; ++row) {
    std::copy_n(tensor.data.begin() + static_cast<std::ptrdiff_t>(row * from), from,
                out.begin() + static_cast<std::ptrdiff_t>(row * to));
  }
  // What lies behind the rows: the scale of all.
  out.insert(out.end(), tensor.data.begin() + static_cast<std::ptrdiff_t>(before * from), tensor.data.end());
  tensor.data = std::move(out);
  tensor.extents[0] = cols;
  if (tensor.extents.size() > 1) tensor.extents[1] = rows;
}

/// Changes a key to another number, and returns the one before.
std::uint32_t replace(gguf_writer& model, std::string_view ending, std::uint64_t value) {
  for (written_entry& entry : model.entries) {
    if (!entry.key.ends_with(ending)) continue;
    std::uint32_t before = 0;
    std::memcpy(&before, entry.payload.data(), sizeof before);
    entry.payload.clear();
    append_number(entry.payload, static_cast<std::uint32_t>(value));
    return before;
  }
  throw std::invalid_argument("there is no key " + std::string(ending));
}

}  // namespace

void pad_widths(gguf_writer& model, std::uint64_t embedding, std::uint64_t ffn) {
  const widths after{embedding, ffn};
  for (written_tensor& tensor : model.tensors) {
    const auto* rule = std::find_if(rules.begin(), rules.end(), [&](const shape_rule& one) {
      return tensor.name == one.ending || tensor.name.ends_with("." + std::string(one.ending));
    });
    if (rule == rules.end()) continue;
    const std::uint64_t rows = tensor.extents.size() > 1 ? tensor.extents[1] : 1;
    pad(tensor, after.of(rule->cols, tensor.extents[0]), after.of(rule->rows, rows));
  }
  model.add("orcd.hidden_original", replace(model, ".embedding_length", embedding));
  model.add("orcd.intermediate_original", replace(model, ".feed_forward_length", ffn));
}

}  // namespace orcd::test
