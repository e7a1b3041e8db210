#include "test/support/gguf_writer.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace orcd::test {
namespace {

void pad_to(bytes& out, std::uint64_t alignment) {
  while (out.size() % alignment != 0) out.push_back(std::byte{0});
}

void append_entry(bytes& out, const written_entry& entry) {
  append_string(out, entry.key);
  append_number(out, entry.type);
  out.insert(out.end(), entry.payload.begin(), entry.payload.end());
}

}  // namespace

void append_string(bytes& out, std::string_view text) {
  append_number(out, static_cast<std::uint64_t>(text.size()));
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), data, data + text.size());
}

gguf_writer& gguf_writer::add(std::string key, std::string_view value) {
  bytes payload;
  append_string(payload, value);
  return add_raw(std::move(key), static_cast<std::uint32_t>(engine::gguf_value_type::string),
                 std::move(payload));
}

gguf_writer& gguf_writer::add(std::string key, const std::vector<std::string>& values) {
  bytes payload;
  append_number(payload, static_cast<std::uint32_t>(engine::gguf_value_type::string));
  append_number(payload, static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) append_string(payload, value);
  return add_raw(std::move(key), static_cast<std::uint32_t>(engine::gguf_value_type::array),
                 std::move(payload));
}

gguf_writer& gguf_writer::add_raw(std::string key, std::uint32_t type, bytes payload) {
  entries.push_back({std::move(key), type, std::move(payload)});
  return *this;
}

gguf_writer& gguf_writer::add_tensor(std::string name, std::vector<std::uint64_t> extents,
                                     engine::ggml_type type, bytes data) {
  return add_tensor(
      {std::move(name), std::move(extents), static_cast<std::uint32_t>(type), std::move(data), {}});
}

gguf_writer& gguf_writer::add_tensor(written_tensor tensor) {
  tensors.push_back(std::move(tensor));
  return *this;
}

void gguf_writer::remove(std::string_view key) {
  std::erase_if(entries, [&](const written_entry& e) { return e.key == key; });
}

void gguf_writer::remove_tensor(std::string_view name) {
  std::erase_if(tensors, [&](const written_tensor& t) { return t.name == name; });
}

written_tensor* gguf_writer::find_tensor(std::string_view name) {
  const auto at =
      std::find_if(tensors.begin(), tensors.end(), [&](const written_tensor& t) { return t.name == name; });
  return at == tensors.end() ? nullptr : &*at;
}

bytes gguf_writer::build() const {
  bytes out;
  std::vector<written_entry> all = entries;
  if (alignment != 32) {
    written_entry e{"general.alignment", static_cast<std::uint32_t>(engine::gguf_value_type::u32), {}};
    append_number(e.payload, alignment);
    all.insert(all.begin(), std::move(e));
  }
  for (const char c : faults.magic.value_or("GGUF")) out.push_back(static_cast<std::byte>(c));
  append_number(out, faults.version.value_or(3));
  append_number(out, faults.tensor_count.value_or(tensors.size()));
  append_number(out, faults.entry_count.value_or(all.size()));
  for (const written_entry& entry : all) append_entry(out, entry);

  const std::uint64_t step = std::max<std::uint64_t>(1, faults.layout_alignment.value_or(alignment));
  std::uint64_t next = 0;
  for (const written_tensor& tensor : tensors) {
    append_string(out, tensor.name);
    append_number(out, static_cast<std::uint32_t>(tensor.extents.size()));
    for (const std::uint64_t extent : tensor.extents) append_number(out, extent);
    append_number(out, tensor.type);
    append_number(out, tensor.offset.value_or(next));
    next = (next + tensor.data.size() + step - 1) / step * step;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pad_to(out, step);
    out.insert(out.end(), tensors[i].data.begin(), tensors[i].data.end());
  }
  if (!faults.no_padding_at_end) pad_to(out, step);
  return out;
}

void write_file(const std::string& path, std::span<const std::byte> image) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

}  // namespace orcd::test
