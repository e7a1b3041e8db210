// Arbitrary bytes as a quantization manifest and as a safetensors file. Oracle beside the sanitizers: what
// is accepted keeps to the limits, and a refusal is one short line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "app/quantize/manifest.hpp"
#include "app/quantize/tensor_names.hpp"
#include "engine/safetensors/safetensors_file.hpp"

namespace {

void expect(bool held) {
  if (!held) std::abort();
}

void expect_line(const orcd::engine::error& e) {
  expect(!e.message.empty() && e.message.size() < 4096 && e.message.find('\n') == std::string::npos);
}

void check_range(const orcd::app::manifest& read, const orcd::app::byte_range& range) {
  expect(range.shard < read.shards.size() && range.offset + range.bytes >= range.offset);
}

void as_manifest(std::span<const std::byte> image) {
  const auto read = orcd::app::parse_manifest(image, "fuzz");
  if (!read) return expect_line(read.error());
  expect(!read->shards.empty() && (!read->tensors.empty() || read->lora));
  expect(read->tensors.size() * 55 <= image.size());
  for (const auto& tensor : read->tensors) {
    check_range(*read, tensor.data);
    if (tensor.scale) check_range(*read, *tensor.scale);
    expect(tensor.data.bytes == std::uint64_t{tensor.rows} * tensor.cols * bytes_of(tensor.type));
  }
  if (!read->lora) return;
  expect(read->lora->targets.size() == std::size_t{read->lora->layers} * orcd::app::lora_targets);
  for (const auto& target : read->lora->targets) {
    if (!target) continue;
    check_range(*read, target->a.data);
    check_range(*read, target->b.data);
  }
}

void as_safetensors(std::span<const std::byte> image) {
  const auto read = orcd::engine::safetensors_file::parse(image, "fuzz");
  if (!read) return expect_line(read.error());
  for (const auto& tensor : read->tensors()) {
    expect(read->find(tensor.name) == &tensor && read->bytes_of(tensor).size() == tensor.bytes);
    if (tensor.bytes > 0) expect(read->at_offset(tensor.offset) == &tensor);
    static_cast<void>(orcd::app::parse_tensor_name(tensor.name));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto image = std::as_bytes(std::span(data, size));
  as_manifest(image);
  as_safetensors(image);
  return 0;
}
