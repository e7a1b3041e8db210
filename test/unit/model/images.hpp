// Models of test/data/families, as they are or changed where they lie in memory: a key's value in place, a
// key or a tensor by another name, values of a tensor.
#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "test/unit/model/helpers.hpp"

namespace orcd::test {

inline bytes image_of(const std::string& name) {
  std::ifstream in(std::string(ORCD_TEST_DATA) + "/families/" + name + ".gguf", std::ios::binary);
  BOOST_REQUIRE_MESSAGE(in.good(), name);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

/// Where a string of the file ends, which has its length before it.
inline std::size_t end_of(const bytes& image, std::string_view text) {
  std::string wanted(8, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(wanted.data(), &length, sizeof length);
  wanted += text;
  const std::string_view all(reinterpret_cast<const char*>(image.data()), image.size());
  const std::size_t at = all.find(wanted);
  BOOST_REQUIRE_MESSAGE(at != std::string_view::npos, text);
  return at + wanted.size();
}

/// Replaces the value of a key by one of the same type; the type is four bytes before it.
template <class T>
inline bytes with_value(bytes image, std::string_view key, T value) {
  std::memcpy(image.data() + end_of(image, key) + 4, &value, sizeof value);
  return image;
}

/// Adds a key in front of the others, and one that nobody reads, so that tensors keep their alignment.
inline bytes with_key(const bytes& image, std::string_view key, std::uint32_t value) {
  constexpr std::size_t counts = 16, keys = 24, alignment = 32, frame = 16;
  bytes added;
  const auto add = [&](std::string_view name, std::uint32_t number) {
    append_string(added, name);
    append_number(added, static_cast<std::uint32_t>(engine::gguf_value_type::u32));
    append_number(added, number);
  };
  add(key, value);
  add(std::string(2 * alignment - frame - added.size() % alignment, 'x'), 0);
  BOOST_REQUIRE(added.size() % alignment == 0);
  bytes out = image;
  std::uint64_t count = 0;
  std::memcpy(&count, out.data() + counts, sizeof count);
  count += 2;
  std::memcpy(out.data() + counts, &count, sizeof count);
  out.insert(out.begin() + keys, added.begin(), added.end());
  return out;
}

/// Gives a key or a tensor another name, so that it is missing.
inline bytes without(bytes image, std::string_view name) {
  image[end_of(image, name) - 1] = std::byte{'~'};
  return image;
}

inline std::unique_ptr<loaded> load_image(bytes image) {
  auto file = engine::gguf_file::parse(image, "tiny.gguf");
  BOOST_REQUIRE_MESSAGE(file.has_value(), file.error().message);
  auto model = engine::load_model(*file);
  BOOST_REQUIRE_MESSAGE(model.has_value(), model.error().message);
  return std::make_unique<loaded>(loaded{std::move(image), std::move(*file), std::move(*model)});
}

inline std::unique_ptr<loaded> load_named(const std::string& name) {
  return load_image(image_of(name));
}

inline void expect_image_refused(const bytes& image, std::string_view part, std::string_view absent = {}) {
  const auto file = engine::gguf_file::parse(image, "tiny.gguf");
  BOOST_REQUIRE_MESSAGE(file.has_value(), file.error().message);
  const auto model = engine::load_model(*file);
  BOOST_REQUIRE_MESSAGE(!model, "was accepted");
  BOOST_TEST(model.error().message.find(part) != std::string::npos,
             "no \"" << part << "\" in \"" << model.error().message << "\"");
  BOOST_TEST((absent.empty() || model.error().message.find(absent) == std::string::npos),
             "\"" << absent << "\" in \"" << model.error().message << "\"");
}

/// Replaces one value of a tensor in F32.
inline bytes with_number(bytes image, std::string_view tensor, std::size_t index, float value) {
  const auto file = engine::gguf_file::parse(image, "tiny.gguf");
  BOOST_REQUIRE_MESSAGE(file.has_value(), file.error().message);
  const engine::tensor_view* const found = file->find_tensor(tensor);
  BOOST_REQUIRE(found != nullptr && found->type == engine::ggml_type::f32 && index < found->elements());
  const auto at = static_cast<std::size_t>(found->data - image.data()) + index * sizeof value;
  std::memcpy(image.data() + at, &value, sizeof value);
  return image;
}

/// The same of one entry of an array, whose count and type are sixteen bytes.
template <class T>
bytes with_entry(bytes image, std::string_view key, std::size_t index, T value) {
  std::memcpy(image.data() + end_of(image, key) + 4 + 12 + index * sizeof value, &value, sizeof value);
  return image;
}

}  // namespace orcd::test
