#include "app/quantize/gguf_header.hpp"

#include <cstring>

#include "engine/base/ensure.hpp"
#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/gguf_values.hpp"

namespace orcd::app {
namespace {

using bytes = std::vector<std::byte>;
using engine::gguf_value_type;

constexpr std::uint64_t alignment = 32;
constexpr std::uint32_t version = 3;

template <class T>
void put(bytes& out, T value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

void put_text(bytes& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), data, data + text.size());
}

std::uint64_t aligned(std::uint64_t value) {
  return *engine::checked_align(value, alignment);
}

}  // namespace

void gguf_header::add(std::string_view key, std::uint32_t value) {
  put_text(entries_, key);
  put(entries_, static_cast<std::uint32_t>(gguf_value_type::u32));
  put(entries_, value);
  ++entry_count_;
}

void gguf_header::add(std::string_view key, float value) {
  put_text(entries_, key);
  put(entries_, static_cast<std::uint32_t>(gguf_value_type::f32));
  put(entries_, value);
  ++entry_count_;
}

void gguf_header::add(std::string_view key, std::string_view value) {
  put_text(entries_, key);
  put(entries_, static_cast<std::uint32_t>(gguf_value_type::string));
  put_text(entries_, value);
  ++entry_count_;
}

std::size_t gguf_header::add_tensor(std::string name, std::vector<std::uint64_t> extents,
                                    engine::ggml_type type) {
  const engine::type_traits& traits = engine::traits_of(type);
  ORCD_ENSURE(!extents.empty() && extents[0] % traits.block_elems == 0);
  std::uint64_t size = engine::row_bytes(traits, extents[0]);
  for (std::size_t i = 1; i < extents.size(); ++i) size *= extents[i];
  tensors_.push_back({std::move(name), std::move(extents), type, size + traits.trailer_bytes, 0});
  return tensors_.size() - 1;
}

std::vector<std::byte> gguf_header::build() {
  bytes out;
  for (const char c : {'G', 'G', 'U', 'F'}) out.push_back(static_cast<std::byte>(c));
  put(out, version);
  put(out, std::uint64_t{tensors_.size()});
  put(out, entry_count_);
  out.insert(out.end(), entries_.begin(), entries_.end());
  std::uint64_t next = 0;
  for (tensor& t : tensors_) {
    put_text(out, t.name);
    put(out, static_cast<std::uint32_t>(t.extents.size()));
    for (const std::uint64_t extent : t.extents) put(out, extent);
    put(out, static_cast<std::uint32_t>(t.type));
    put(out, next);
    t.offset = next;
    next = aligned(next + t.bytes);
  }
  out.resize(aligned(out.size()));
  for (tensor& t : tensors_) t.offset += out.size();
  file_bytes_ = out.size() + next;
  return out;
}

}  // namespace orcd::app
