// Reads what models for embeddings and ranking have besides: the pooling, and sizes that only their tensors
// tell.
#include <algorithm>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

constexpr std::uint32_t token_types_max = 1024;
constexpr std::uint32_t classes_max = 2;

/// Rows of a tensor; 1 where there is none, because bind_tensors reports its absence.
std::uint32_t rows_of(hparam_reader& from, const char* name, std::uint64_t most) {
  const tensor_view* tensor = from.file().find_tensor(name);
  if (tensor == nullptr) return 1;
  if (tensor->rows() > most) {
    from.problems().add("tensor '" + std::string(name) + "' has " + std::to_string(tensor->rows()) +
                        " rows; the limit is " + std::to_string(most));
  }
  return static_cast<std::uint32_t>(std::min(tensor->rows(), most));
}

/// Of two outputs, the labels say which one means that the document is relevant.
void read_classes(hparam_reader& from, model_spec& spec) {
  spec.classes = rows_of(from, "cls.output.weight", classes_max);
  if (spec.classes < 2) return;
  const auto labels = from.file().get_strings(from.full("classifier.output_labels"));
  if (labels && labels->size() == spec.classes) {
    const auto yes = std::find(labels->begin(), labels->end(), "yes");
    if (yes != labels->end()) {
      spec.relevant_class = static_cast<std::uint32_t>(yes - labels->begin());
      return;
    }
  }
  from.problems().add("the classifier has 2 outputs, and key '" + from.full("classifier.output_labels") +
                      "' does not say which of them is 'yes'");
}

/// The pooling that the file names. Generating models may have the key too, with the value 0.
std::optional<pooling_kind> pooling_of(hparam_reader& from, const model_spec& spec) {
  if (!from.has("pooling_type")) return std::nullopt;
  const auto kind = static_cast<pooling_kind>(
      from.count("pooling_type", 0, static_cast<std::uint32_t>(pooling_kind::rank)));
  if (kind == pooling_kind::none && spec.causal) return std::nullopt;
  return kind;
}

}  // namespace

void read_pooling(hparam_reader& from, std::optional<pooling_kind> chosen, model_spec& spec) {
  spec.pooling = chosen ? chosen : pooling_of(from, spec);
  if (!spec.causal && !spec.pooling) {
    from.problems().add("the model generates no text, and key '" + from.full("pooling_type") +
                        "' does not say how it makes embeddings: a pooling must be named");
  }
  if (spec.learned_positions) {
    spec.positions = rows_of(from, "position_embd.weight", hparam_limits::context);
    spec.token_types = rows_of(from, "token_types.weight", token_types_max);
    if (spec.context_length > spec.positions && from.file().find_tensor("position_embd.weight") != nullptr) {
      from.problems().add("key '" + from.full("context_length") + "' is " +
                          std::to_string(spec.context_length) + ", but tensor 'position_embd.weight' has " +
                          std::to_string(spec.positions) + " rows");
    }
  }
  if (spec.pooling == pooling_kind::rank) read_classes(from, spec);
  const bool windowed = std::any_of(spec.layers.begin(), spec.layers.end(),
                                    [](const layer_spec& layer) { return layer.window != 0; });
  if (!spec.causal && windowed) {
    from.problems().add("attention without a mask is not supported together with a sliding window");
  }
}

}  // namespace orcd::engine
