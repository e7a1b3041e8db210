// What the GGUF tests share: parse an image, and look at the message of a refusal.
#pragma once

#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

#include "engine/gguf/gguf_file.hpp"
#include "test/support/gguf_writer.hpp"

namespace orcd::test {

inline engine::result<engine::gguf_file> parse(const bytes& image, const engine::gguf_limits& limits = {}) {
  return engine::gguf_file::parse(image, "test.gguf", limits);
}

/// The image must be refused as MODEL_LOAD_FAILED with a message that has every one of `parts`.
inline void expect_refused(const bytes& image, std::initializer_list<std::string_view> parts,
                           const engine::gguf_limits& limits = {}) {
  const auto file = parse(image, limits);
  BOOST_REQUIRE_MESSAGE(!file, "was accepted");
  BOOST_TEST((file.error().code == engine::errc::model_load_failed));
  BOOST_TEST(file.error().message.starts_with("test.gguf: "));
  BOOST_TEST(file.error().message.size() < 1000U);
  for (const std::string_view part : parts) {
    BOOST_TEST(file.error().message.find(part) != std::string::npos,
               "no \"" << part << "\" in \"" << file.error().message << "\"");
  }
}

/// A valid file of two tensors and a few keys.
inline gguf_writer small_writer() {
  gguf_writer w;
  w.add("general.architecture", "llama");
  w.add("answer", std::uint32_t{42});
  w.add_tensor("a", {4}, engine::ggml_type::f32, bytes(16, std::byte{1}));
  w.add_tensor("b", {32, 2}, engine::ggml_type::q8_0, bytes(68, std::byte{2}));
  return w;
}

}  // namespace orcd::test
