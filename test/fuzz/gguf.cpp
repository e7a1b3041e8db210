// Arbitrary bytes as a GGUF model: parse, load and read everything. Oracle beside the sanitizers: no
// single allocation is larger than a small multiple of the input.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/model/rope.hpp"
#include "test/fuzz/allocation_limit.hpp"

namespace {

using orcd::engine::gguf_file;

/// Bytes of one allocation that an input of `size` bytes may cause: vectors of parsed records are up to
/// 48 times their smallest encoding, and small fixed buffers are free.
std::size_t allowance(std::size_t size) {
  return 48 * size + 65'536;
}

using orcd::fuzz::allowed;

void read_metadata(const gguf_file& file) {
  for (const auto& entry : file.entries()) {
    const std::string_view key = entry.key;
    if (file.find(key) != &entry.value) std::abort();
    static_cast<void>(file.get_unsigned(key, 1));
    static_cast<void>(file.get_float(key, 1.0));
    static_cast<void>(file.get_bool(key, true));
    static_cast<void>(file.get_string(key, "x"));
    static_cast<void>(file.require_unsigned(key));
    static_cast<void>(file.require_string(key));
    if (const auto strings = file.get_strings(key)) {
      std::size_t bytes = 0;
      for (const std::string_view s : *strings) bytes += s.size();
      if (bytes > file.file_bytes()) std::abort();
    }
    static_cast<void>(file.get_floats(key));
    static_cast<void>(file.get_integers(key));
  }
}

void read_tensors(const gguf_file& file) {
  const auto image = file.parts().front();
  unsigned sum = 0;
  for (const auto& tensor : file.tensors()) {
    if (file.find_tensor(tensor.name) != &tensor || tensor.bytes == 0) std::abort();
    if (tensor.data < image.data() || tensor.data + tensor.bytes > image.data() + image.size()) std::abort();
    sum += static_cast<unsigned>(tensor.data[0]) + static_cast<unsigned>(tensor.data[tensor.bytes - 1]);
  }
  if (sum > 510 * file.tensors().size()) std::abort();  // the bytes are read, whatever they are
  if (file.tensor_bytes() > file.file_bytes()) std::abort();
}

void load(const gguf_file& file, const orcd::engine::rope_overrides& overrides) {
  const auto model = orcd::engine::load_model(file, 4096, overrides);
  if (!model) {
    if (model.error().message.empty() || model.error().message.size() > 16'384) std::abort();
    return;
  }
  const auto factors = orcd::engine::rope_freq_factors(*model, 4096);
  for (const auto& layer : model->spec.layers) {
    const auto table = orcd::engine::make_rope_table(layer.rope, factors);
    if (table.inv_freq.size() != layer.rope.dims / 2) std::abort();
  }
  static_cast<void>(model->spec.kv_bytes_per_token());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  allowed = allowance(size);
  {
    const auto file = gguf_file::parse(std::as_bytes(std::span(data, size)), "fuzz");
    if (file) {
      read_metadata(*file);
      read_tensors(*file);
      static_cast<void>(file->quant_kind());
      load(*file, {});
      orcd::engine::rope_overrides yarn;
      yarn.scaling = orcd::engine::rope_scaling::yarn;
      load(*file, yarn);
    } else if (file.error().message.empty() || file.error().message.size() > 4096) {
      std::abort();
    }
  }
  allowed = SIZE_MAX;
  return 0;
}
